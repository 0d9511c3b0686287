# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Shared by the scripts in this directory: paths, fetching kernels, building the module for
# a kernel. Sourced, never run.
#
# The kernels are those of this machine's Debian: 6.12, and 6.1 where Debian is 12; arm64 (6.12 for
# that architecture); and User-Mode Linux 7.2: uml, and with checkers uml-debug and uml-debug-smp.
# Everything fetched or built for them is in one cache directory, which may be deleted at any time.

RAR_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
RAR_CACHE=${RAR_CACHE:-$HOME/.cache/rar}
RAR_KERNELS="6.1 6.12 arm64 uml uml-debug uml-debug-smp"
RAR_MODULES="rar rar_box rar_roce"	# what Kbuild builds; each needs those before it
RAR_RELEASE=$(. /etc/os-release 2> /dev/null; [ "${ID-}" != debian ] || echo "${VERSION_ID-}")
mkdir -p "$RAR_CACHE/log"

# ---------------------------------------------------------------- messages

rar_say() { echo "# $*" >&2; }
rar_die() { echo "error: $*" >&2; exit 1; }

# rar_step LOGNAME TEXT function...: prints a progress line, and the output only on failure.
# Runs in a shell of its own, because "set -e" is off where a caller tests a result.
rar_step()
{
	rar_try_step "$@" || { tail -n 40 "$RAR_CACHE/log/$1.log" >&2; exit 1; }
}

# rar_try_step LOGNAME TEXT function...: the same, but the caller judges a failure
rar_try_step()
{
	local log=$RAR_CACHE/log/$1.log text=$2 t0=$SECONDS

	shift 2
	rar_say "$text ..."
	# shellcheck disable=SC2016 # expanded by the new shell
	if ! RAR_CACHE=$RAR_CACHE bash -eu -o pipefail -c '. "$0"; "$@"' \
		"$RAR_TOP/scripts/lib.sh" "$@" > "$log" 2>&1 < /dev/null; then
		echo "error: $text: failed, see $log" >&2
		return 1
	fi
	rar_say "$text: done, $((SECONDS - t0)) s"
}

# rar_locked NAME command...: runs the command in one process at a time
rar_locked()
{
	local lock=$RAR_CACHE/$1.lock

	shift
	(
		flock -n 9 || { rar_say "waiting for another process ($lock)" && flock 9; }
		"$@"
	) 9> "$lock"
}

# rar_limits KERNEL: prints how many times longer than tests.list says a test may take there
rar_limits()
{
	case $1 in
	uml-debug-smp) echo 4 ;;
	uml-debug) echo 2 ;;
	*) echo 1 ;;
	esac
}

# rar_match LIST WORD
rar_match() { [[ " $1 " == *" $2 "* ]]; }

# ---------------------------------------------------------------- machine

# rar_suite: prints the name of this machine's Debian, or fails
rar_suite()
{
	case $RAR_RELEASE in
	12) echo bookworm ;;
	13) echo trixie ;;
	*) return 1 ;;
	esac
}

# rar_debian_kernels: prints the kernels that this machine's Debian has, the oldest first
rar_debian_kernels()
{
	[ "$RAR_RELEASE" != 12 ] || echo -n "6.1 "
	echo 6.12
}

# rar_check_machine: prints everything that the machine lacks
rar_check_machine()
{
	local miss=() kb

	rar_suite > /dev/null || miss+=("Debian 12 or 13: kernels and packages of these are used")
	[ "$(uname -m)" = x86_64 ] || miss+=("an amd64 machine")
	kb=$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)
	[ "$kb" -ge 3000000 ] || miss+=("4 GB of memory, 3 of it free (free: $((kb / 1024)) MB)")
	kb=$(df -Pk "$RAR_CACHE" | awk 'NR == 2 { print $4 }')
	[ "$kb" -ge 6000000 ] || miss+=("6 GB of disk under $RAR_CACHE (free: $((kb / 1024)) MB)")
	[ ${#miss[@]} = 0 ] && return
	printf 'this machine lacks: %s\n' "${miss[@]}" >&2
	return 1
}

# ---------------------------------------------------------------- packages

rar_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo > /dev/null; then
		sudo "$@"
	else
		rar_die "needs root or sudo: $*"
	fi
}

# Update the package lists if they are older than an hour. Another program, such as the daily timer
# of a machine that just started, may hold their lock, and apt does not wait for it.
rar_apt_update()
{
	local said end=$((SECONDS + 600))

	[ -n "$(find "$RAR_CACHE/apt-updated" -mmin -60 2>/dev/null)" ] && return
	until said=$(rar_root env LC_ALL=C apt-get -qq update 2>&1); do
		if [[ $said != *"Could not get lock"* ]] || [ "$SECONDS" -ge "$end" ]; then
			rar_die "no package lists: $said"
		fi
		sleep 2
	done
	touch "$RAR_CACHE/apt-updated"
}

rar_install()
{
	rar_apt_update
	rar_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 \
		-o DPkg::Lock::Timeout=600 \
		install --no-install-recommends "$@"
}

# rar_download DIR package...: downloads packages into DIR, which is made if need be
rar_download()
{
	local dir=$1

	shift
	mkdir -p "$dir" &&
		(cd "$dir" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download "$@")
}

# rar_unpack DIR package...: downloads and unpacks packages without installing them
rar_unpack()
{
	local dir=$1 tmp deb status=0

	shift
	tmp=$(mktemp -d "$RAR_CACHE/deb.XXXXXX")
	rar_download "$tmp" "$@" || status=$?
	for deb in "$tmp"/*.deb; do
		[ $status = 0 ] || break
		dpkg -x "$deb" "$dir" || status=$?
	done
	rm -r "$tmp"
	return $status
}

# Print the mirrors that this machine uses for its Debian, each with the name of its suite.
rar_mirrors()
{
	# shellcheck disable=SC2016 # apt expands it
	apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
		awk -v suite="$(rar_suite)" 'index($2, suite) == 1 && !seen[$0]++'
}

# rar_mirror_of SUITE: prints a line for rar_apt_elsewhere, the mirror with another suite
rar_mirror_of()
{
	rar_mirrors | awk -v suite="$(rar_suite)" -v other="$1" '$2 == suite { print $1, other; exit }'
}

# rar_apt_elsewhere DIR ARCHITECTURE...: makes DIR/apt.conf, for APT_CONFIG: with it apt knows
# the mirrors that stdin lists (URL and suite), in package lists of its own. So the lists of
# this machine never see another suite or architecture.
rar_apt_elsewhere()
{
	local dir=$1

	shift
	mkdir -p "$dir/lists/partial" "$dir/archives/partial"
	sed 's|.*|deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] & main|' \
		> "$dir/sources.list"
	cat > "$dir/apt.conf" <<-EOF
	APT::Architecture "$1";
	APT::Architectures { $(printf '"%s"; ' "$@")};
	Dir::State "$dir";
	Dir::State::lists "$dir/lists";
	Dir::State::status "/dev/null";
	Dir::Cache "$dir";
	Dir::Etc::SourceList "$dir/sources.list";
	Dir::Etc::SourceParts "/dev/null";
	APT::Sandbox::User "$(id -un)";
	Acquire::Languages "none";
	EOF
	APT_CONFIG=$dir/apt.conf apt-get -qq update
}

# ---------------------------------------------------------------- Debian kernels
# $RAR_CACHE/<kernel>/: version, root/ (image and headers unpacked), vmlinux

rar_is_uml() { [[ $1 == uml* ]]; }
rar_is_debug() { [[ $1 == uml-debug* ]]; }
rar_is_arm64() { [[ $1 == arm64 ]]; }
rar_release() { cat "$RAR_CACHE/$1/release"; }
rar_moddir() { echo "$RAR_CACHE/$1/root/lib/modules/$(rar_release "$1")"; }

# rar_kdir KERNEL: prints the directory that a module is built against
rar_kdir()
{
	if rar_is_uml "$1"; then
		echo "$RAR_CACHE/$1"
	else
		echo "$RAR_CACHE/$1/root/usr/src/linux-headers-$(rar_release "$1")"
	fi
}

# Modules that no test loads; without them depmod is faster.
RAR_UNUSED_MODULES="sound drivers/gpu drivers/media drivers/staging drivers/iio
drivers/hwmon drivers/usb drivers/scsi drivers/hid drivers/net/wireless"

# rar_downloadable PACKAGE...: does a package list have each of them? A package that others only
# name has no candidate.
rar_downloadable()
{
	LC_ALL=C apt-cache policy "$@" |
		awk -v want=$# '$1 == "Candidate:" && $2 != "(none)" { n++ } END { exit n < want }'
}

# rar_headers_need RELEASE: prints the packages that its headers need. The programs that build
# modules (kbuild) are this machine's.
rar_headers_need()
{
	apt-cache show --no-all-versions "linux-headers-$1" 2> /dev/null |
		sed -n 's/^Depends: //p' |
		grep -oE 'linux-(headers-[^ ,]*-common|kbuild-[^ ,]*)' | sed '/kbuild/s/$/:amd64/'
}

# rar_debian_releases SERIES ARCHITECTURE: prints the ordinary (not cloud, not rt) kernels that can
# be downloaded with their headers, the newest first. While Debian publishes a kernel, its headers
# are there hours before its image.
rar_debian_releases()
{
	local re rel

	re="linux-headers-${1/./\\.}\.[0-9.]+(\+deb[0-9]+|-[0-9]+)-$2"
	for rel in $(apt-cache pkgnames "linux-headers-$1." | grep -E "^$re\$" | sort -rV); do
		rel=${rel#linux-headers-}
		# shellcheck disable=SC2046 # a list
		! rar_downloadable "linux-image-$rel" "linux-headers-$rel" $(rar_headers_need "$rel") ||
			echo "$rel"
	done
}

# The headers' Makefile contains /usr/src: make it point into the cache.
rar_relocate_headers()
{
	sed -i "s|/usr/src/|$1/usr/src/|g" "$1/usr/src/linux-headers-$2/Makefile"
}

# rar_unpack_kernel DIR SERIES ARCHITECTURE: unpacks image and headers of the newest kernel; if it
# cannot be downloaded, of the one before it. There is no DIR then if the cache has that kernel.
rar_unpack_kernel()
{
	local dir=$1 rel

	for rel in $(rar_debian_releases "$2" "$3" | head -n 3); do
		rm -rf "$dir" && mkdir -p "$dir/root"
		if [ -e "${dir%.new}/ready" ] && [ "$rel" = "$(cat "${dir%.new}/release")" ]; then
			rmdir "$dir/root" "$dir"
			return
		fi
		# shellcheck disable=SC2046 # a list
		if rar_unpack "$dir/root" "linux-image-$rel" "linux-headers-$rel" \
			$(rar_headers_need "$rel"); then
			rar_strip_kernel "$dir" "$rel"
			return
		fi
		echo "$rel cannot be downloaded"
	done
	rar_die "the package mirror has no linux-image-$2.* for $3 with its headers"
}

# rar_strip_kernel DIR RELEASE: deletes modules that no test loads. Debian 13 has modules in /usr.
rar_strip_kernel()
{
	local what

	[ -e "$1/root/lib" ] || ln -s usr/lib "$1/root/lib"
	echo "$2" > "$1/release"
	for what in $RAR_UNUSED_MODULES; do
		rm -rf "$1/root/lib/modules/$2/kernel/$what"
	done
	depmod -b "$1/root" "$2"
}

# rar_keep_kernel KERNEL: what was made in the directory KERNEL.new, if anything, is complete
rar_keep_kernel()
{
	touch "$RAR_CACHE/$1/ready" 2> /dev/null || true
	[ -d "$RAR_CACHE/$1.new" ] || return 0
	rm -rf "${RAR_CACHE:?}/$1" && mv "$RAR_CACHE/$1.new" "$RAR_CACHE/$1"
	rar_relocate_headers "$RAR_CACHE/$1/root" "$(rar_release "$1")"
	touch "$RAR_CACHE/$1/ready"
}

rar_fetch_debian()
{
	local dir=$RAR_CACHE/$1.new rel

	rar_apt_update
	rar_unpack_kernel "$dir" "$1" amd64
	if [ -d "$dir" ]; then
		rel=$(cat "$dir/release")
		"$RAR_TOP/scripts/lib/extract-vmlinux.py" "$dir/root/boot/vmlinuz-$rel" "$dir/vmlinux"
	fi
	rar_keep_kernel "$1"
}

# ---------------------------------------------------------------- arm64
# Debian's 6.12 for arm64, which this machine emulates. Its guest cannot run this machine's
# programs, so $RAR_CACHE/arm64/userland has Debian's for arm64, unpacked.

RAR_ARM64_PACKAGES="bash busybox-static coreutils dash diffutils ethtool findutils gawk grep
iproute2 iputils-ping kmod mount nftables procps python3 sed tcpdump util-linux"

# rar_unpack_userland DIR: unpacks the packages and all that they depend on
rar_unpack_userland()
{
	local dir=$1 archives deb

	# shellcheck disable=SC2086 # a list
	apt-get -qq -y --no-install-recommends --download-only install $RAR_ARM64_PACKAGES
	eval "$(apt-config shell archives Dir::Cache::archives/d)"
	mkdir -p "$dir"/{mnt,run,tmp,root}
	for deb in "$archives"*.deb; do
		dpkg -x "$deb" "$dir"
	done
	ln -s gawk "$dir/usr/bin/awk"
}

rar_fetch_arm64()
{
	local dir=$RAR_CACHE/arm64.new tmp=$RAR_CACHE/arm64.apt

	rar_apt_update
	rm -rf "$tmp"
	rar_mirrors | rar_apt_elsewhere "$tmp" arm64 amd64
	export APT_CONFIG=$tmp/apt.conf
	rar_unpack_kernel "$dir" 6.12 arm64
	if [ -d "$dir" ]; then
		ln -s "root/boot/vmlinuz-$(cat "$dir/release")" "$dir/vmlinux"
		rar_unpack_userland "$dir/userland"
	fi
	rar_keep_kernel arm64
	rm -r "$tmp"
}

# ---------------------------------------------------------------- User-Mode Linux
# A source tree from Debian sid. It is built plain, with checkers, and with checkers and SMP.

RAR_UML_SOURCE=linux-source-7.2

# rar_download_source DIR PREFIX [FIRST]: downloads a kernel's source package with this prefix: FIRST if
# it is there, or else the newest
rar_download_source()
{
	local pkg

	for pkg in ${3-} $(apt-cache pkgnames "$2" | grep -E "^$2[.0-9]*\$" | sort -rV); do
		if rar_downloadable "$pkg" && rar_download "$1" "$pkg"; then
			echo "$pkg"
			return
		fi
		echo "$pkg cannot be downloaded"
	done
	rar_die "the package mirror has no $2*"
}

# rar_source_tar DIR: prints the source tree of the package in DIR, as tar
rar_source_tar()
{
	dpkg --fsys-tarfile "$1"/linux-source-*.deb |
		tar -xO --wildcards './usr/src/linux-source-*.tar.xz' | xz -dc
}

# Patch some functions. Looking up every word of the stack with __kernel_text_address() makes a
# boot with checkers five times as long, so check first whether the word can be code at all.
# KASAN must not clear everything between the first and the last area that vfree() gives back:
# that may be terabytes, and contain areas in use. With "time-travel" (scripts/vm --skip-idle) time
# passes only when a timer is due, and a timer that is set again begins anew: beside a busy ring a
# second took half a minute, and no clock told how long anything took. So the time that programs
# need passes whenever a clock is read.
rar_uml_patch()
{
	sed -i \
		-e '/^static void __time_travel_add_event(/i \
/*\
 * In basic mode: let the time that programs needed pass, but no event. A signal\
 * handler, too, may ask for the time before lockdep knows that it runs.\
 */\
static void time_travel_catch_up(void)\
{\
	static long long before;\
	struct time_travel_event *e;\
	unsigned long long ns;\
	unsigned long flags;\
	long long now;\
\
	if (time_travel_mode != TT_MODE_BASIC)\
		return;\
	raw_local_irq_save(flags);\
	now = os_nsecs();\
	ns = time_travel_time + (before ? now - before : 0);\
	before = now;\
	e = time_travel_first_event();\
	if (e)\
		ns = min(ns, e->time);\
	if (ns > time_travel_time)\
		time_travel_set_time(ns);\
	raw_local_irq_restore(flags);\
}\
' \
		-e '/^static inline void time_travel_handle_real_alarm(void)$/i \
static inline void time_travel_catch_up(void)\
{\
}\
' \
		-e '/^static u64 timer_read(/,/^}/s/if (time_travel_mode != TT_MODE_OFF) {/&\n\t\ttime_travel_catch_up();/' \
		-e 's/^\ttime_travel_set_time(time_travel_next_event);/\ttime_travel_set_time(max(time_travel_next_event, time_travel_time));/' \
		-e '/^void time_travel_sleep(void)/,/^}/s/os_timer_disable(cpu);/time_travel_catch_up(), &/' \
		-e '/^void time_travel_sleep(void)/,/^}/s/event.time - next/event.time - time_travel_time/' \
		"$1/arch/um/kernel/time.c"
	grep -c time_travel_catch_up "$1/arch/um/kernel/time.c" | grep -qx 4
	sed -i \
		-e 's/if (__kernel_text_address(addr)) {/if (may_be_text(addr) \&\& __kernel_text_address(addr)) {/' \
		-e '/^void dump_trace(/i static bool may_be_text(unsigned long addr)\n{\n\treturn (addr >= (unsigned long)_stext \&\& addr < (unsigned long)_etext) ||\n\t       is_vmalloc_or_module_addr((void *)addr);\n}\n' \
		-e 's|^#include <asm/stacktrace.h>|#include <linux/mm.h>\n#include <asm/sections.h>\n&|' \
		"$1/arch/um/kernel/stacktrace.c"
	sed -i '/^void __kasan_release_vmalloc(/,/^}/s/if (IS_ENABLED(CONFIG_UML)) {/&\n\t\t\tif (flags \& KASAN_VMALLOC_PAGE_RANGE)/' \
		"$1/mm/kasan/shadow.c"
	grep -q 'if (may_be_text(addr)' "$1/arch/um/kernel/stacktrace.c"
	grep -A1 'CONFIG_UML' "$1/mm/kasan/shadow.c" | grep -q 'if (flags & KASAN'
	rar_uml_patch_id > "$1/.patch"
}

rar_uml_patch_id() { declare -f rar_uml_patch | sha256sum; }

rar_fetch_uml_source()
{
	local dir=$RAR_CACHE/uml-source tmp=$RAR_CACHE/sid

	rm -rf "$tmp" "$dir" "$dir.new" && mkdir -p "$tmp" "$dir.new"
	rar_mirror_of sid | rar_apt_elsewhere "$tmp" amd64
	APT_CONFIG=$tmp/apt.conf rar_download_source "$tmp/source" "${RAR_UML_SOURCE%.*}" "$RAR_UML_SOURCE"
	rar_source_tar "$tmp/source" | tar -x -C "$dir.new" --strip-components=1 \
		--exclude='*/Documentation' --exclude='*/tools/perf' \
		--exclude='*/tools/testing/selftests' --exclude='*/arch/*/boot/dts' \
		--exclude='*/drivers/gpu/drm/*/*.[ch]' --exclude='*/sound/*.[ch]'
	mkdir "$dir.new/Documentation" && : > "$dir.new/Documentation/Kconfig"
	rar_uml_patch "$dir.new"
	rm -r "$tmp" && mv "$dir.new" "$dir"
}

# Every line of the fragments must take effect; otherwise a check would silently be missing.
rar_uml_configure()
{
	local dir=$1 src=$2

	mkdir -p "$dir"
	rar_uml_fragments "$3" > "$dir/fragments.config"
	make -C "$src" O="$dir" ARCH=um KCONFIG_ALLCONFIG="$dir/fragments.config" allnoconfig
	if grep -E '^CONFIG_.*=' "$dir/fragments.config" | grep -vxFf "$dir/.config"; then
		echo "these options did not take effect"
		return 1
	fi
}

# There are no modules, but modprobe must know what is built in.
rar_uml_modules()
{
	mkdir -p "$1/kernel"
	cp "${1%/root/*}"/modules.{order,builtin,builtin.modinfo} "$1/"
	depmod -b "${1%/lib/*}" "$(basename "$1")"
}

# rar_uml_fragments KERNEL: prints the fragments of its configuration. With SMP each change of
# the interrupt mask is a system call, even on one CPU, and two thirds of the time went into these
# calls. So uml and uml-debug have no SMP: what several CPUs do at the same time is for
# uml-debug-smp. And only without SMP can idle time pass at once.
rar_uml_fragments()
{
	local config=$RAR_TOP/scripts/config

	echo "# Sources changed by $(rar_uml_patch_id)"
	case $1 in
	uml) cat "$config"/uml{,-up}.config ;;
	uml-debug) cat "$config"/uml{,-debug,-up}.config ;;
	uml-debug-smp) cat "$config"/uml{,-debug,-smp}.config ;;
	esac
}

# The binary is replaced, not overwritten, so that running guests keep the old one.
rar_build_uml()
{
	local dir=$RAR_CACHE/$1 src=$RAR_CACHE/uml-source

	rm -f "$dir"/{ready,linux,vmlinux}
	rar_uml_configure "$dir" "$src" "$1"
	make -s -C "$src" O="$dir" ARCH=um -j"$(nproc)" linux modules
	make -s -C "$src" O="$dir" ARCH=um modules_prepare
	make -s -C "$src" O="$dir" ARCH=um kernelrelease | tail -n 1 > "$dir/release"
	rar_uml_modules "$dir/root/lib/modules/$(cat "$dir/release")"
	touch "$dir/ready"
}

# Is the source there, as this tree changes it?
rar_uml_source_ready() { rar_uml_patch_id | cmp -s - "$RAR_CACHE/uml-source/.patch"; }

# Is the kernel built, and from its present configuration? Modules need its source, too.
rar_uml_ready()
{
	[ -e "$RAR_CACHE/$1/ready" ] && rar_uml_source_ready &&
		rar_uml_fragments "$1" | cmp -s - "$RAR_CACHE/$1/fragments.config"
}

rar_ensure_uml()
{
	rar_uml_ready "$1" && return
	"$RAR_TOP/scripts/deps" uml
	rar_uml_source_ready ||
		rar_step uml-source "fetching $RAR_UML_SOURCE" rar_fetch_uml_source
	rar_step "$1" "building the $1 kernel (once, 5 to 30 minutes)" rar_build_uml "$1"
}

# ---------------------------------------------------------------- any kernel

RAR_KERNEL_DAYS=7	# after these a newer kernel is looked for

rar_kernel_recent() { [ -n "$(find "$RAR_CACHE/$1/ready" -mtime "-$RAR_KERNEL_DAYS" 2> /dev/null)" ]; }

# Fetch a kernel. If that fails, the kernel in the cache is good enough.
rar_ensure_debian()
{
	local what="fetching the newest $1 kernel of Debian $RAR_RELEASE" fetch=(rar_fetch_debian "$1")

	! rar_kernel_recent "$1" || return 0
	if rar_is_arm64 "$1"; then
		what="fetching the newest 6.12 kernel of Debian $RAR_RELEASE for arm64"
		fetch=(rar_fetch_arm64)
	fi
	if [ ! -e "$RAR_CACHE/$1/ready" ]; then
		rar_step "fetch-$1" "$what" "${fetch[@]}"
	elif ! rar_try_step "fetch-$1" "$what" "${fetch[@]}"; then
		rar_say "using the kernel in the cache: $(rar_release "$1")"
		touch "$RAR_CACHE/$1/ready"
	fi
}

# rar_kernel KERNEL: makes sure that the kernel can be booted and built against
rar_kernel()
{
	rar_match "$RAR_KERNELS" "$1" || rar_die "unknown kernel '$1', one of: $RAR_KERNELS"
	[ "$1" != 6.1 ] || rar_match "$(rar_debian_kernels)" 6.1 ||
		rar_die "Debian $RAR_RELEASE has no kernel 6.1; it has $(rar_debian_kernels)"
	if [ ! -e "$RAR_CACHE/$1/ready" ]; then
		rar_check_machine || exit 1
	fi
	if rar_is_uml "$1"; then
		rar_uml_ready "$1" || rar_locked uml rar_ensure_uml "$1"
	else
		rar_locked "$1" rar_ensure_debian "$1"
	fi
}

# ---------------------------------------------------------------- the module
# Built in build/<kernel>/ from copies of the sources, so that each kernel has its own objects.

# rar_forget_objects KERNEL DIRECTORY: removes objects that were made with another configuration of
# the kernel, which make does not see
rar_forget_objects()
{
	local now

	now=$(sha256sum < "$(rar_kdir "$1")/.config")
	[ "$now" != "$(cat "$2/.kernel" 2> /dev/null)" ] || return 0
	find "$2" -name '*.o' -delete
	echo "$now" > "$2/.kernel"
}

# rar_make KERNEL DIRECTORY [make arguments]: with more warnings, but without kernel-doc, which W=1
# lets examine each file and which "scripts/check kernel-doc" does at once
rar_make()
{
	local kernel=$1 dir=build/$2 arch=()

	shift 2
	rar_is_uml "$kernel" && arch=(ARCH=um)
	rar_is_arm64 "$kernel" && arch=(ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-)
	rar_forget_objects "$kernel" "$dir"
	make -C "$(rar_kdir "$kernel")" M="$RAR_TOP/$dir" -j"$(nproc)" W=1 cmd_checkdoc= \
		"${arch[@]}" "$@" modules > "$dir/make.log" 2>&1
}

# rar_sync_sources DIRECTORY Kbuild [file...]: copies these files, include and net to
# build/DIRECTORY. A file that differs is as new as the copy: it may have been written while the
# one before was being compiled.
rar_sync_sources()
{
	local dir=$1

	shift
	mkdir -p "build/$dir"
	rsync -rlp --checksum --delete --filter='P *.mod.c' --include='*/' --include='*.[chS]' \
		--include=Kbuild --exclude='*' "$@" include net "build/$dir/"
}

# rar_build KERNEL [make arguments]: builds rar.ko and the others of RAR_MODULES in build/KERNEL, with
# warnings on stderr, and what modprobe needs in a guest
rar_build()
{
	local kernel=$1

	shift
	rar_kernel "$kernel"
	mkdir -p "$RAR_TOP/build/$kernel"
	(
		cd "$RAR_TOP" && flock 9
		rar_sync_sources "$kernel" Kbuild
		[ -e "build/$kernel/rar.ko" ] || rar_say "building the module for $kernel ..."
		if ! rar_make "$kernel" "$kernel" "$@"; then
			rar_make_log "$kernel" >&2
			rar_die "the module does not build for $kernel"
		fi
		rar_is_uml "$kernel" || "$RAR_TOP/scripts/lib/module-btf" "build/$kernel/rar.ko" \
			"$(rar_kdir "$kernel")" "$RAR_CACHE/$kernel/vmlinux"
		rar_warnings "$kernel" >&2
		rar_depmod "$kernel"
	) 9> "$RAR_TOP/build/$kernel.lock"
}

# Print a checksum of an object's code.
rar_code_sum() { objcopy -O binary --only-section=.text "$1" /dev/stdout | sha256sum; }

# rar_build_mutant KERNEL: builds build/KERNEL.mutant/rar.ko, in which every claim of a chunk
# succeeds. A test that passes on it does not test for duplicates. Only the callers of
# rar_op_claim() differ, so only these are compiled.
rar_build_mutant()
{
	local dir=build/$1.mutant op=net/rar/core/op.h
	local claim='return rar_bits_test_and_set(op->claimed'
	local always='return rar_mask(run->n) | rar_bits_test_and_set(op->claimed'

	rar_build "$1"
	(
		cd "$RAR_TOP" && flock 9
		rm -rf "$dir" && rsync -a --exclude=/modules --exclude='*.ko' "build/$1/" "$dir/"
		# Both tell make, and the linker, paths of objects.
		find "$dir" \( -name '.*.cmd' -o -name rar.mod \) \
			-exec sed -i "s|/build/$1/|/$dir/|g" {} +
		grep -q "$claim" "$dir/$op"
		sed -i "s/$claim/$always/" "$dir/$op" && touch -r "build/$1/$op" "$dir/$op"
		grep -rl --include='*.c' 'rar_op_claim(' "$dir/net" | sed 's/c$/o/' | xargs rm
		rar_make "$1" "$1.mutant"
		[ "$(rar_code_sum "build/$1/rar.ko")" != "$(rar_code_sum "$dir/rar.ko")" ] ||
			rar_die "the mutant has the code of the module"
	) 9> "$RAR_TOP/build/$1.lock"
}

# rar_build_light KERNEL [make arguments]: builds build/KERNEL.light/rar_light.ko, the module's
# sums without its packets, as a reference for scripts/bench.
rar_build_light()
{
	local kernel=$1

	shift
	rar_kernel "$kernel"
	mkdir -p "$RAR_TOP/build/$kernel.light"
	(
		cd "$RAR_TOP" && flock 9
		rar_sync_sources "$kernel.light" tools/bench/light/*
		if ! rar_make "$kernel" "$kernel.light" "$@"; then
			rar_make_log "$kernel.light" >&2
			rar_die "rar_light does not build for $kernel"
		fi
		rar_warnings "$kernel.light" >&2
	) 9> "$RAR_TOP/build/$kernel.light.lock"
}

# Print the log of the last build for a kernel, with paths in this tree.
rar_make_log() { sed "s|$RAR_TOP/build/$1/||g" "$RAR_TOP/build/$1/make.log"; }
rar_warnings() { rar_make_log "$1" | grep -E 'warning:|WARNING:|error:' || true; }

# rar_depmod KERNEL: makes build/KERNEL/modules, which is /lib/modules/<release> in a guest
# that may load rar. Reading all modules takes seconds, so it is only done when needed.
rar_depmod()
{
	local dir=$RAR_TOP/build/$1 rel tree stamp module

	rel=$(rar_release "$1")
	stamp=$(echo "$rel"; for module in $RAR_MODULES; do
		[ -e "$dir/$module.ko" ] || continue	# older trees have fewer
		modinfo -F alias "$dir/$module.ko"
		modinfo -F depends "$dir/$module.ko"
	done)
	[ "$stamp" = "$(cat "$dir/modules/stamp" 2>/dev/null)" ] && return
	rm -rf "$dir/modules"
	tree=$dir/modules/lib/modules/$rel
	mkdir -p "$tree/extra"
	for module in $RAR_MODULES; do
		[ ! -e "$dir/$module.ko" ] || ln -s "$dir/$module.ko" "$tree/extra/"
	done
	ln -s "$(rar_moddir "$1")"/{kernel,modules.order,modules.builtin*} "$tree/"
	depmod -b "$dir/modules" "$rel"
	echo "$stamp" > "$dir/modules/stamp"
}

# ---------------------------------------------------------------- kernel logs

RAR_LOG_BAD='BUG:|WARNING:|Oops|Call Trace:|Kernel panic|general protection fault'
RAR_LOG_BAD+='|possible (circular|recursive|irq lock|deadlock)|suspicious RCU|inconsistent lock state'
RAR_LOG_BAD+='|INFO: task .* blocked|rcu.*(stall|detected)|sleeping function called|held lock'
RAR_LOG_BAD+='|scheduling while atomic|KASAN|UBSAN|ODEBUG:|refcount_t:|list_(add|del) corruption'
RAR_LOG_BAD+='|kmemleak: [0-9]+ new|unreferenced object|unregister_netdevice: waiting|Bad page'

# Leave out reports of memory cgroups that kill at their limit: tests cause them.
rar_without_memcg_oom()
{
	awk '/invoked oom-killer/ { held = 1; text = "" }
	     held { text = text $0 "\n" }
	     held && /oom-kill:constraint=/ {
			held = 0
			if (!/=CONSTRAINT_MEMCG/)
				printf "%s", text
			next
	     }
	     !held
	     END { if (held) printf "%s", text }' "$1"
}

# Leave out reports of caches that could not be created: alloc_fail.py makes their memory
# fail. The kernel reports EINVAL where per-CPU memory failed.
rar_without_injected()
{
	awk '/kmem_cache_create.* failed with error -(12|22)$/ { injected = 1 }
		injected && /Call Trace:/ { injected = 0; next } 1'
}

# Leave out what an emulated processor did by mistake. If an instruction adds to memory and faults,
# QEMU before 9.1 may save wrong flags, and the trap flag among them lets the kernel warn once.
# (QEMU e3693cd3c9: "the value in CC_SRC* and CC_DST might be interpreted with the wrong CC_OP")
RAR_LOG_EMULATOR='WARNING: .* exc_debug_kernel'
rar_without_emulator()
{
	awk -v bad="$RAR_LOG_EMULATOR" '$0 ~ bad { held = 1; next }
		held && /Call Trace:/ { held = 0; next } 1'
}

# Leave out what User-Mode Linux with kmemleak and SMP does wrong at boot: a CPU frees memory before
# it is online (os_start_secondary()), so RCU warns, once.
rar_without_uml_boot()
{
	awk '/WARNING: suspicious RCU usage/ { printf "%s", text; held = 1; text = "" }
	     !held { print; next }
	     { text = text $0 "\n" }
	     / os_start_secondary\+/ { held = 0; text = "" }
	     /Call Trace:/ { held = 2; next }
	     held == 2 && !/\[</ { held = 0; printf "%s", text; text = "" }
	     END { printf "%s", text }'
}

# rar_findings LOG [option...]: prints the lines of a kernel log that fail a test; the options
# are those of grep
rar_findings()
{
	local log=$1

	shift
	rar_without_memcg_oom "$log" | rar_without_injected | rar_without_emulator |
		rar_without_uml_boot | grep -aE "$@" "$RAR_LOG_BAD"
}

# ---------------------------------------------------------------- kernel tools
# checkpatch and kselftest are only in the kernel's source package.

rar_fetch_tools()
{
	local dir=$RAR_CACHE/tools tmp=$RAR_CACHE/tools.new

	rar_apt_update
	rm -rf "$tmp" && mkdir -p "$tmp"
	rar_download_source "$tmp" linux-source-6
	rar_source_tar "$tmp" | tar -x -C "$tmp" --strip-components=1 --wildcards \
		'*/scripts/checkpatch.pl' '*/scripts/spelling.txt' \
		'*/scripts/const_structs.checkpatch' '*/scripts/kernel-doc' \
		'*/tools/testing/selftests/kselftest.h' \
		'*/tools/testing/selftests/kselftest_harness.h' \
		'*/tools/testing/selftests/lib.mk' '*/tools/testing/selftests/kselftest/*.*'
	rm -rf "$tmp"/*.deb "$dir" && mv "$tmp" "$dir"
}

rar_ensure_tools()
{
	[ -e "$RAR_CACHE/tools/tools/testing/selftests/lib.mk" ] ||
		rar_step tools "fetching checkpatch and kselftest" rar_fetch_tools
}

rar_tools() { rar_locked tools rar_ensure_tools; }

# Debian 12 has promtool only in the package of the Prometheus server, which would run on this
# machine if it were installed. So promtool is unpacked.
RAR_PROMTOOL=$RAR_CACHE/promtool/usr/bin/promtool

rar_fetch_promtool()
{
	local dir=$RAR_CACHE/promtool package=promtool

	rar_apt_update
	rar_downloadable $package || package=prometheus
	rm -rf "$dir" "$dir.new" && mkdir -p "$dir.new"
	rar_unpack "$dir.new" $package
	mkdir -p "$dir/usr/bin" && mv "$dir.new/usr/bin/promtool" "$dir/usr/bin/"
	rm -r "$dir.new"
}

rar_ensure_promtool()
{
	[ -x "$RAR_PROMTOOL" ] || rar_step promtool "fetching promtool" rar_fetch_promtool
}

rar_promtool() { rar_locked promtool rar_ensure_promtool; }

# Optical recognition of handwritten digits, UCI: part of a Debian package, of which nothing is
# installed. They are kept as digits.csv in the cache.
rar_fetch_digits()
{
	local dir=$RAR_CACHE/digits.new

	rm -rf "$dir" && mkdir "$dir"
	rar_apt_update
	rar_unpack "$dir" python3-sklearn
	gzip -dc "$dir"/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz \
		> "$dir/digits.csv"
	mv "$dir/digits.csv" "$RAR_CACHE/digits.csv" && rm -r "$dir"
}

rar_digits()
{
	[ -e "$RAR_CACHE/digits.csv" ] ||
		rar_step digits "fetching handwritten digits (2 MB)" rar_fetch_digits
}

# Make build/kselftest, which selftests/Makefile includes.
rar_kselftest()
{
	rar_tools
	mkdir -p "$RAR_TOP/build/kselftest"
	cp -ru "$RAR_CACHE"/tools/tools/testing/selftests/* "$RAR_TOP/build/kselftest/"
}

# Build the tests in build/selftests, and the XDP program in build/xdp.
rar_selftests()
{
	rar_kselftest
	rar_step xdp "building the XDP program" make -C "$RAR_TOP/tools/xdp"
	rar_step selftests "building the selftests" make -C "$RAR_TOP/selftests" \
		KSELFTEST_DIR="$RAR_TOP/build/kselftest" -j"$(nproc)"
}

# Build the tests in build/selftests.arm64.
rar_selftests_arm64()
{
	rar_kselftest
	rar_step selftests.arm64 "building the selftests for arm64" make -C "$RAR_TOP/selftests" \
		CROSS_COMPILE=aarch64-linux-gnu- OUTPUT="$RAR_TOP/build/selftests.arm64" \
		KSELFTEST_DIR="$RAR_TOP/build/kselftest" -j"$(nproc)"
}
