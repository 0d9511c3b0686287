#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# librar_abi.sh: librar as other programs see it: the header in C99 and C++, exported symbols and
# their versions, what is installed and how it links. Prints TAP; needs no module.
set -u
cd "$(dirname "$0")/../.." || exit
. selftests/host/tap.sh
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT

# try NAME command...
try()
{
	local name=$1 status=0

	shift
	"$@" > "$dir/out" 2>&1 || status=1
	out=$(< "$dir/out")
	result $status "$name"
}

cat > "$dir/use.c" <<'EOF'
#include <rar/librar.h>

int main(void)
{
	rar_comm_t *comm = NULL;
	char buf[100];

	rar_comm_free(comm);
	return rar_dtype_size(RAR_F32) != 4 || !*rar_strerror(comm, -1, buf, sizeof(buf)) ||
	       !*rar_version();
}
EOF
cp "$dir/use.c" "$dir/use.cc"

build() { make -s -C lib O="$dir/lib"; }
install_it() { make -s -C lib O="$dir/lib" install DESTDIR="$dir/root" PREFIX=/usr; }
header() { "$@" -Wall -Wextra -Werror -pedantic -I"$dir/root/usr/include" -fsyntax-only; }

# The symbols of the map, those that the library exports, and the functions of the header are
# the same.
symbols()
{
	sed -n 's/^\t\(rar_.*\);/\1/p' lib/librar.map | sort > "$dir/map"
	awk '/{$/ { v = $1 } /^\trar_/ { sub(";", "@@" v); print $1 }' lib/librar.map |
		sort > "$dir/versions"
	nm -D --defined-only "$dir/lib/librar.so.0" | sed -n 's/.* T //p' | sort > "$dir/symbols"
	sed 's/@@.*//' "$dir/symbols" | sort > "$dir/exported"
	gcc -E -P -Ilib/include -Iinclude/uapi lib/include/rar/librar.h |
		grep -oE '\brar_[a-z_]+\(' | tr -d '(' | sort -u > "$dir/declared"
	diff "$dir/versions" "$dir/symbols" && diff "$dir/map" "$dir/exported" &&
		diff "$dir/map" "$dir/declared"
}

others() { ! nm -g --defined-only "$dir/lib/librar.a" | grep -vE '( T rar_|^$|librar.o:)'; }

pkg() { PKG_CONFIG_PATH=$dir/root/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$dir/root pkg-config "$@"; }

link()	# STATIC
{
	local flags

	flags=$(pkg --cflags --libs ${1:+--static} librar) || return
	# shellcheck disable=SC2086 # a list
	gcc -o "$dir/use" "$dir/use.c" ${1:+-static} $flags && LD_LIBRARY_PATH=$dir/root/usr/lib "$dir/use"
}

needs_soname() { link "" && readelf -d "$dir/use" | grep -q 'NEEDED.*\[librar.so.0\]'; }

pages()
{
	local name

	while read -r name; do
		grep -q "$name" Documentation/librar.3 || { echo "no $name"; return 1; }
	done < "$dir/map"
	! command -v mandoc > /dev/null || mandoc -T lint -W warning Documentation/librar.3
}

echo "TAP version 13"
try "build" build
try "install" install_it
try "header, C99" header gcc -std=c99 "$dir/use.c"
try "header, C++11" header g++ -std=c++11 "$dir/use.cc"
try "header, C++20" header g++ -std=c++20 "$dir/use.cc"
try "exported, listed and declared functions are the same" symbols
try "librar.a has no other global symbol" others
try "a program linked with librar.so, by pkg-config" needs_soname
try "a program linked with librar.a, by pkg-config" link static
try "librar(3) names all functions" pages
echo "1..$nr"
exit $failed
