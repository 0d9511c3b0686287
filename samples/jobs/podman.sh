#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# podman.sh IMAGE DIR SIZE RANK: a rank of samples/librar in a container of an ordinary user, on the
# network of its host. All ranks see DIR.
exec podman run --rm --network=host --volume="$2:/cards" "$1" librar /cards "$3" "$4"
