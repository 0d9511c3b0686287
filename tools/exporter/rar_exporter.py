#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Shows AF_RAR's counters, members and settings to Prometheus.

Serves http://ADDRESS:PORT/metrics, or with --once prints the metrics and ends, for a collector
of text files. It reads /proc/net/rar* and /proc/sys/net/rar, so it shows its own network
namespace. Without CAP_NET_ADMIN it shows the members of its own user only. Only the standard
library is needed.
"""
import argparse
import http.server
import pathlib
import re
import socket
import sys

COUNTERS = {
    # list: counters
    "RxIngress": "Packets taken at the netfilter ingress hook",
    "RxEncap": "Packets taken behind the rules for input",
    "RxXdp": "Packets taken at the XDP hook",
    "XdpEarly": "Packets that XDP left to ingress because their operation was not posted",
    "XdpPassed": "Packets that XDP left to ingress because they hold no data or are not good",
    "RxData": "Chunks accepted",
    "RxBytes": "Payload bytes of the chunks accepted",
    "RxWhole": "Carriers taken",
    "RxLocal": "Runs of chunks handed over by a rank of this network namespace",
    "RxRound": "Runs of these that passed several ranks at once",
    "RxDup": "Chunks received again",
    "TxData": "Chunks sent, with those sent again",
    "TxBytes": "Payload bytes of the chunks sent",
    "TxRetrans": "Chunks sent again",
    "TxForward": "Chunks sent in the packet that brought them",
    "TxXdp": "Chunks sent by XDP",
    "TxWhole": "Chunks sent in carriers, to neighbours in one kernel",
    "TxSpread": "Own chunks sent by another CPU",
    "LanesLost": "Lanes left out: packets of one port did not come",
    "LanesBack": "Lanes used again",
    "TxDirect": "Operations sent straight to a rank",
    "TxDirectAsk": "Questions to ranks that exchange directly",
    "TxAck": "Acknowledgments sent",
    "TxCtl": "Packets sent that hold neither data nor an acknowledgment",
    "TxError": "Packets that the network stack did not take",
    "TxHeldBack": "Own chunks that waited for room in the send buffer",
    "OpsPosted": "Operations posted",
    "OpsDone": "Operations complete",
    "OpBytes": "Bytes of the operations posted",
    "EarlyHeld": "Packets held for operations not posted yet",
    "ReduceSimd": "Chunks added with vector registers",
    "ReduceScalar": "Chunks added without vector registers",
    "BoxOpened": "Times that a member got a leg to a box",
    "BoxLost": "Times that a member lost its leg and went on by the ring",
    "BoxReturned": "Packets of a box that gave chunks up",
    "BoxWants": "Questions to predecessors for missing sums",
    "BoxTaken": "Box: contributions that came",
    "BoxSums": "Box: chunks summed",
    "BoxBatches": "Box: batches of records that a root has taken",
    "BoxGaveUp": "Box: chunks given up",
    "BoxEvicted": "Box: chunks given up for another chunk",
    "BoxHanded": "Box: partial sums handed to the ring",
    "BoxOffers": "Box: offers to members whose JOIN passed",
    "BoxRoceSums": "Box: places of RoCEv2 messages summed",
    "BoxRoceAgain": "Box: packets of RoCEv2 that came again and got the sum",
    "BoxRoceLate": "Box: places given up as packets of other ranks did not come in time",
    "BoxRoceRaw": "Box: packets of RoCEv2 messages that went on without a sum",
    "BoxRoceRefused": "Box: RoCEv2 messages of hosts that may not use it",
    "GroupsJoined": "Rings closed",
    "JoinsRefused": "Requests to join that were refused",
    "HostStood": "Times that this host stood still, as a member's timer found",
    "GroupsFailed": "Groups that ended with an error",
    # end of list
}

# Of each setting: the name of its metric, and what the metric says.
SETTINGS = {
    # list: settings
    "port": ("port", "UDP port of addresses that name none"),
    "window": ("window_bytes", "Bytes in flight in a whole ring, for each 500 us of the round "
                               "trip of a link"),
    "mem": ("mem_bytes", "Bytes of copied operations, all groups together"),
    "early_bytes": ("early_bytes", "Per group: bytes of operations not posted here yet that "
                                   "the predecessor may send"),
    "copy_step": ("copy_step_bytes", "Bytes of each block of a long tensor that are copied at "
                                     "once while the ring works on it"),
    "join_ms": ("join_seconds", "Seconds until connect() gives up"),
    "dead_ms": ("dead_seconds", "Seconds of silence after which a neighbour counts as dead"),
    "linger_ms": ("linger_seconds", "Seconds that a closed member may go on serving its "
                                    "neighbours"),
    "max_members": ("max_members", "Members with a socket"),
    "super_chunks": ("super_chunks", "Chunks that one packet may carry until a device cuts it"),
    "local": ("local", "1: ranks in one network namespace hand chunks over in memory"),
    "one_host": ("one_host", "1: with RAR_BY_HOSTS, this namespace and all others of this "
                             "kernel with 1 are one host, whatever their addresses"),
    "carriers": ("carriers", "1: packets to a neighbour in the same kernel have one header for "
                             "all of their chunks, and share the kernel's pages"),
    "lanes": ("lanes", "Flows that the chunks of a link are spread over, each from a UDP port "
                       "of its own"),
    "direct_bytes": ("direct_bytes", "RAR_AUTO and RAR_DOUBLING, at rank 0: operations of more "
                                     "bytes go by the ring"),
    "halving_bytes": ("halving_bytes", "RAR_AUTO and RAR_DOUBLING, at rank 0: longer "
                                       "all-reduces, all-gathers and reduce-scatters of up to "
                                       "so many bytes go by halving"),
    "xdp_mirror": ("xdp_mirror", "1: packet sockets, such as those of tcpdump, see the packets "
                                 "that XDP takes and sends"),
    "strict": ("strict", "1: every packet passes all of netfilter"),
    "box_mem": ("box_mem_bytes", "Bytes that this host uses as a box, also written as 256M"),
    "box_offer": ("box_offer", "1: this host, if it is a box, offers itself to members whose "
                               "packets it forwards"),
    "box_roce": ("box_roce", "1: this host, if it is a box, sums what RoCEv2 queue pairs send "
                             "through it. Loads rar_roce"),
    "box_roce_ms": ("box_roce_seconds", "Seconds that the box holds a packet of them at most"),
    "box_share": ("box_share_percent", "Percent of box_mem that is split evenly, and that no "
                                       "group takes from another"),
    "box_trust": ("box_trust", "1: the box compares the priorities of different groups"),
    # end of list
}
# Of each setting that is a word: the name of its label, and what the metric says.
WORDS = {
    # list: words
    "rx_path": ("path", "1; where packets are received"),
    "box": ("address", "1; address of the box that rank 0 proposes to its group, or several"),
    "box_allow": ("hosts", "1; hosts that may use the box of this host"),
    "box_policy": ("policy", "1; how the groups share box_mem"),
    "box_up": ("address", "1; address of a box above the box of this host, to which it brings "
                          "the sums of its ranks"),
    # end of list
}

# list: states
STATES = ("unbound", "bound", "joining", "ready", "run", "leaving", "failed")
# end of list
HOLDERS = ("socket", "orphan", "tombstone")     # the first one speaks for a rank

# Columns of /proc/net/rar: the name of the metric, its type, and what it says.
MEMBER = {
    "size": ("size", "gauge", "Members of the group"),
    "payload": ("payload_bytes", "gauge", "Payload of a packet in this epoch"),
    "posted": ("ops_posted_total", "counter", "Operations posted in this epoch"),
    "complete": ("ops_complete_total", "counter", "Operations complete in this epoch"),
    "released": ("ops_released_total", "counter",
                 "Operations of this epoch whose buffer no rank needs"),
    "retransmits": ("retransmits_total", "counter", "Chunks sent again to the successor"),
}


# Columns of /proc/net/rar_box, for each group.
BOX = {
    "size": ("size", "gauge", "Members of the group"),
    "entered": ("entered", "gauge", "Members that have entered; the group waits for the others"),
    "complete": ("ops_complete_total", "counter", "Operations complete at all members"),
    "rows": ("rows", "gauge", "Chunks that the box holds"),
    "sums": ("sums_total", "counter", "Sums made"),
    "returned": ("returned_total", "counter", "Chunks given back to the ring"),
    "evicted": ("evicted_total", "counter", "Those that made room for other chunks"),
    "bytes": ("bytes", "gauge", "Memory of the chunks that the box holds"),
}


# ------------------------------------------------------------------ the text

class Metrics:
    """The samples of all metrics, in the order in which the metrics were first named."""

    def __init__(self):
        self.families = {}

    def add(self, name, kind, text, value, /, **labels):
        """Add a sample of the metric rar_@name."""
        samples = self.families.setdefault(f"rar_{name}", (kind, text, []))[2]
        samples.append((labels, value))

    def __str__(self):
        lines = []
        for name, (kind, text, samples) in self.families.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            for labels, value in samples:
                inner = ",".join(f'{key}="{escaped(word)}"' for key, word in labels.items())
                lines.append(f"{name}{{{inner}}} {value}" if inner else f"{name} {value}")
        return "\n".join(lines) + "\n"


def escaped(word):
    """Return the value of a label with its special characters escaped."""
    return str(word).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def snake(name):
    """Return TxRetrans as tx_retrans."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def seconds(milliseconds):
    """Return milliseconds in seconds, without an exponent."""
    return f"{int(milliseconds) / 1000:.3f}"


# ------------------------------------------------------------------ the files

def add_counters(metrics, text):
    """Add the counters of rar_netstat. A newer module may have more than this file knows."""
    names, values = (line.split()[1:] for line in text.splitlines()[:2])
    for name, value in zip(names, values):
        if name.startswith("Drop"):
            metrics.add("drops_total", "counter", "Packets dropped, by reason", value,
                        reason=snake(name.removeprefix("Drop")))
        else:
            about = COUNTERS.get(name, f"Counter Rar{name} of /proc/net/rar_netstat")
            metrics.add(f"{snake(name)}_total", "counter", about, value)


def add_module(metrics, line):
    """Add the first line of /proc/net/rar, which is words and values in turn."""
    words = line.split()
    values = dict(zip(words[::2], words[1::2]))
    metrics.add("module_info", "gauge", "1; family number and version of the protocol", 1,
                family=values["family"], wire=values["wire"])
    metrics.add("members", "gauge", "Members of this network namespace", values["groups"])
    metrics.add("mem_bytes", "gauge", "Memory of copied operations in use", values["mem"])
    metrics.add("resumable_epochs", "gauge", "Failed epochs that processes may resume",
                values["resume"])


def members_of(text):
    """Return a row, by column, for each member. A rank that has joined again may have older rows:
    of rows with the same group and rank only the first in the order of HOLDERS counts.
    """
    lines = text.splitlines()
    names, best = lines[1].split(), {}
    for line in lines[2:]:
        row = dict(zip(names, line.split()))
        key = row["group"], int(row["rank"])
        order = HOLDERS.index(row["held-by"]) if row["held-by"] in HOLDERS else len(HOLDERS)
        if key not in best or order < best[key][0]:
            best[key] = order, row
    return [best[key][1] for key in sorted(best)]


def add_members(metrics, rows):
    """Add a sample per metric and member. The epoch stays out: it keeps strangers out."""
    for row in rows:
        labels = {"group": row["group"], "rank": row["rank"]}
        # A module that was loaded before an upgrade does not tell the level.
        metrics.add("member_info", "gauge", "1; addresses, user and holder of a member, and its "
                    "level of security: off, auth or encrypt", 1,
                    **labels, self=row["self"], next=row["next"], prev=row["prev"],
                    uid=row["uid"], held_by=row["held-by"], security=row.get("security", ""))
    for column, (name, kind, about) in MEMBER.items():
        for row in rows:
            metrics.add(f"member_{name}", kind, about, row[column], group=row["group"],
                        rank=row["rank"])
    for row in rows:
        for state in STATES:
            metrics.add("member_state", "gauge", "1: the member is in this state",
                        int(row["state"] == state), group=row["group"], rank=row["rank"],
                        state=state)
    for row in rows:
        if row["slow"] != "-":
            metrics.add("member_straggler_seconds", "gauge",
                        "Time that the straggler kept the group waiting in this epoch, as this "
                        "member knows it", seconds(row["slow_ms"]), group=row["group"],
                        rank=row["rank"], straggler=row["slow"])


def add_box(metrics, text):
    """Add what rar_box says: the first line, and a row for each group."""
    lines = text.splitlines()
    words, names = lines[0].split(), lines[1].split()
    values = dict(zip(words[::2], words[1::2]))
    metrics.add("box_used_bytes", "gauge", "Memory that the box uses", values["used"])
    metrics.add("box_jobs", "gauge", "Groups that the box serves", values["jobs"])
    rows = []
    for line in lines[2:]:
        if line.startswith("roce "):
            break
        rows.append(dict(zip(names, line.split())))
    for row in rows:
        metrics.add("box_group_open", "gauge", "1: the box sums for the group",
                    int(row["state"] == "open"), group=row["group"])
    for column, (name, kind, about) in BOX.items():
        for row in rows:
            metrics.add(f"box_group_{name}", kind, about, row[column], group=row["group"])


def add_reduce(metrics, text):
    """Add the first table of rar_reduce: sets of kernels."""
    lines = text.splitlines()
    rows = [line.split() for line in lines[1:] if line.split()[1] in ("yes", "no")]
    for name, _, selected, *_ in rows:
        metrics.add("reduce_selected", "gauge", "1: these kernels add the chunks",
                    int(selected == "yes"), kernel=name)
    for name, usable, _, *speeds in rows:
        for dtype, speed in zip(("f32", "f64", "i32", "i64"), speeds):
            if usable == "yes" and speed != "-":
                metrics.add("reduce_bytes_per_second", "gauge",
                            "Speed of sums, measured when the module was loaded",
                            int(speed) * 1000000, kernel=name, dtype=dtype)


def add_settings(metrics, folder):
    """Add the settings, of which some are words."""
    for path in sorted(folder.iterdir()):
        value = path.read_text().strip()
        if path.name in WORDS:
            label, about = WORDS[path.name]
            metrics.add(f"setting_{path.name}", "gauge", about, 1, **{label: value})
        else:
            name, about = SETTINGS.get(path.name, (path.name, f"Setting net.rar.{path.name}"))
            metrics.add(f"setting_{name}", "gauge", about,
                        seconds(value) if path.name.endswith("_ms") else value)


def collect(proc, sysctl):
    """Return the metrics as text."""
    metrics = Metrics()
    there = (proc / "rar").exists()
    metrics.add("up", "gauge", "1: the module is loaded", int(there))
    if there:
        text = (proc / "rar").read_text()
        add_module(metrics, text.splitlines()[0])
        add_counters(metrics, (proc / "rar_netstat").read_text())
        add_members(metrics, members_of(text))
        if (proc / "rar_box").exists():
            add_box(metrics, (proc / "rar_box").read_text())
        add_reduce(metrics, (proc / "rar_reduce").read_text())
        add_settings(metrics, sysctl)
    return str(metrics)


# ------------------------------------------------------------------ the server

def handler_of(proc, sysctl):
    """Return the class that answers requests."""

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self):
            if self.path.split("?")[0] not in ("/", "/metrics"):
                return self.send_error(404)
            try:
                body = collect(proc, sysctl).encode()
            except (OSError, ValueError, KeyError, IndexError) as error:
                return self.send_error(500, str(error))     # the module was just unloaded
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            return self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Handler


def serve(listen, handler):
    """Answer requests for ever."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")

    class Server(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    Server((host, int(port)), handler).serve_forever()


def main():
    """Read the options, and do as they say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--listen", default="127.0.0.1:18118", metavar="ADDRESS:PORT",
                        help="default: 127.0.0.1:18118; an IPv6 address stands in brackets")
    parser.add_argument("--once", action="store_true", help="print the metrics and end")
    parser.add_argument("--proc", default="/proc/self/net", type=pathlib.Path,
                        help="directory with the files rar, rar_box, rar_netstat and rar_reduce")
    parser.add_argument("--sysctl", default="/proc/sys/net/rar", type=pathlib.Path,
                        help="directory with the settings")
    args = parser.parse_args()
    if args.once:
        sys.stdout.write(collect(args.proc, args.sysctl))
    else:
        serve(args.listen, handler_of(args.proc, args.sysctl))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
