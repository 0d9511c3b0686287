#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# kernels.sh: which kernel scripts/lib.sh takes from a package mirror. The mirror is a directory of
# made-up packages, in which images, headers or files are missing, as while Debian publishes a
# kernel. Prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit
. selftests/host/tap.sh
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
export RAR_CACHE=$dir/cache
. scripts/lib.sh
# What apt and depmod say in the user's language is not what is looked for.
export LC_ALL=C

# ---------------------------------------------------------------- the mirror

new_mirror() { rm -rf "$dir/mirror" && mkdir -p "$dir/mirror" && : > "$dir/mirror/Packages"; }

# package NAME ARCHITECTURE FILE [DEPENDS]: adds a package, which has this file
package()
{
	local tree=$dir/tree deb=$1_1_$2.deb

	rm -rf "$tree" && mkdir -p "$tree/DEBIAN" "$tree/$(dirname "$3")"
	echo "$1" > "$tree/$3"
	printf '%s\n' "Package: $1" "Version: 1" "Architecture: $2" "Maintainer: nobody <n@example.org>" \
		${4+"Depends: $4"} "Description: made up" > "$tree/DEBIAN/control"
	dpkg-deb -b "$tree" "$dir/mirror/$deb" > /dev/null
	{
		cat "$tree/DEBIAN/control"
		echo "Filename: ./$deb"
		echo "Size: $(stat -c %s "$dir/mirror/$deb")"
		echo "SHA256: $(sha256sum < "$dir/mirror/$deb" | cut -d' ' -f1)"
		echo
	} >> "$dir/mirror/Packages"
}

image() { package "linux-image-$1" "${2-amd64}" "lib/modules/$1/modules.order"; }
common() { package "linux-headers-$1-common" all "usr/src/linux-headers-$1-common/Makefile"; }
kbuild() { package "linux-kbuild-$1" amd64 "usr/lib/linux-kbuild-$1/fixdep"; }

# headers RELEASE VERSION [ARCHITECTURE]: as Debian's, which name the image
headers()
{
	package "linux-headers-$1" "${3-amd64}" "usr/src/linux-headers-$1/Makefile" \
		"linux-headers-$2-common (= 1), linux-image-$1 (= 1) | linux-image-$1-unsigned (= 1), linux-kbuild-$2"
}

# kernel RELEASE VERSION [ARCHITECTURE]: adds a kernel of which all is there
kernel() { image "$1" "${3-amd64}"; headers "$@"; common "$2"; kbuild "$2"; }

# Let apt know the mirror only.
read_lists()
{
	rar_apt_elsewhere "$dir/apt" "${1-amd64}" amd64 < /dev/null &&
		echo "deb [trusted=yes] file:$dir/mirror ./" > "$dir/apt/sources.list" &&
		export APT_CONFIG=$dir/apt/apt.conf && apt-get -qq update &&
		touch "$RAR_CACHE/apt-updated"
}

# ---------------------------------------------------------------- the tests

# takes RELEASE|- SERIES ARCHITECTURE NAME: the kernel that is unpacked, or none
takes()
{
	local want=$1 got

	read_lists "$3" > "$dir/out" 2>&1
	rm -rf "$dir/k.new"
	(rar_unpack_kernel "$dir/k.new" "$2" "$3") >> "$dir/out" 2>&1
	got=$(cat "$dir/k.new/release" 2> /dev/null)
	out="took '$got', wanted '$want'; $(< "$dir/out")"
	if [ "$want" = - ]; then
		[ -z "$got" ] && grep -q "error: the package mirror has no linux-image-$2" "$dir/out"
	else
		[ "$got" = "$want" ] && [ -e "$dir/k.new/root/lib/modules/$want/modules.order" ] &&
			[ -e "$dir/k.new/root/usr/src/linux-headers-$want/Makefile" ] &&
			[ -n "$(find "$dir/k.new/root/usr/lib" -name fixdep)" ]
	fi
	result $? "$4"
}

new_mirror
kernel 6.1.0-9-amd64 6.1.0-9
kernel 6.1.0-10-amd64 6.1.0-10
image 6.1.0-10-rt-amd64 && headers 6.1.0-10-rt-amd64 6.1.0-10
takes 6.1.0-10-amd64 6.1 amd64 "the newest kernel, by its number"
headers 6.1.0-11-amd64 6.1.0-11 && common 6.1.0-11 && kbuild 6.1.0-11
takes 6.1.0-10-amd64 6.1 amd64 "an image that only its headers name is not there"
image 6.1.0-12-amd64
takes 6.1.0-10-amd64 6.1 amd64 "an image without headers is not taken"
image 6.1.0-13-amd64 && headers 6.1.0-13-amd64 6.1.0-13 && kbuild 6.1.0-13
takes 6.1.0-10-amd64 6.1 amd64 "headers without their common part are not taken"
image 6.1.0-14-amd64 && headers 6.1.0-14-amd64 6.1.0-14 && common 6.1.0-14
takes 6.1.0-10-amd64 6.1 amd64 "headers without the programs of kbuild are not taken"
rm "$dir"/mirror/linux-image-6.1.0-10-amd64_*.deb
takes 6.1.0-9-amd64 6.1 amd64 "if a download fails, the kernel before it is taken"
rm "$dir"/mirror/linux-headers-6.1.0-9-amd64_*.deb
takes - 6.1 amd64 "if all downloads fail, the error says what is missing"
new_mirror
takes - 6.12 amd64 "a mirror without kernels"
kernel 6.12.9+deb13-amd64 6.12.9+deb13
takes 6.12.9+deb13-amd64 6.12 amd64 "a kernel of Debian 13"
kernel 6.12.8+deb12-arm64 6.12.8+deb12 arm64
headers 6.12.9+deb12-arm64 6.12.9+deb12 arm64
takes 6.12.8+deb12-arm64 6.12 arm64 "arm64, with this machine's kbuild"

# source WANT NAME: the source package that is downloaded
source_is()
{
	read_lists > "$dir/out" 2>&1
	rm -rf "$dir/source"
	(rar_download_source "$dir/source" linux-source-7 linux-source-7.2) >> "$dir/out" 2>&1
	out="not '$1': $(ls "$dir/source" 2>&1); $(< "$dir/out")"
	if [ "$1" = - ]; then
		grep -q "error: the package mirror has no linux-source-7" "$dir/out"
	else
		[ -e "$dir/source/$1_1_all.deb" ]
	fi
	result $? "$2"
}

new_mirror
source_is - "no source package"
package linux-source-7.1 all usr/src/a
package linux-source-7.3 all usr/src/b
source_is linux-source-7.3 "the newest source package if the wanted one is not there"
package linux-source-7.2 all usr/src/c
source_is linux-source-7.2 "the wanted source package"

# ensures STATUS TEXT NAME: rar_ensure_debian's status, and a line that it prints
ensures()
{
	local status=0

	out=$(rar_ensure_debian 6.12 2>&1) || status=$?
	[ "$status" = "$1" ] && grep -q -- "$2" <<< "$out"
	result $? "$3"
}

# cached RELEASE DAYS: the cache has this kernel, which was looked for so many days ago
cached()
{
	rm -rf "$RAR_CACHE/6.12" && mkdir -p "$RAR_CACHE/6.12"
	echo "$1" > "$RAR_CACHE/6.12/release"
	touch -d "$2 days ago" "$RAR_CACHE/6.12/ready"
}

new_mirror
kernel 6.12.9+deb12-amd64 6.12.9+deb12
read_lists
rm -r "$dir/mirror"
ensures 1 "fetching the newest 6.12 kernel .*: failed" "the mirror cannot be reached, no kernel in the cache"
cached 6.12.7+deb12-amd64 30
ensures 0 "^# using the kernel in the cache: 6.12.7+deb12-amd64$" \
	"the mirror cannot be reached: the kernel in the cache is used, and told"
ensures 0 '^$' "the mirror is not asked again at once"
new_mirror
read_lists
cached 6.12.7+deb12-amd64 30
ensures 0 "^# using the kernel in the cache" "a mirror without kernels: the kernel in the cache is used"
kernel 6.12.9+deb12-amd64 6.12.9+deb12
read_lists
cached 6.12.9+deb12-amd64 30
ensures 0 "kernel of Debian .*: done" "the newest kernel is in the cache"
[ -n "$(find "$RAR_CACHE/6.12/ready" -mmin -5)" ] && [ ! -e "$RAR_CACHE/6.12.new" ]
result $? "and remains there"
echo "1..$nr"
exit $failed
