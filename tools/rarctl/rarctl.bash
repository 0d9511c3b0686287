# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Completion of rarctl for bash.

# Print the group ids of this network namespace.
_rarctl_groups() { rarctl -color=never show 2> /dev/null | awk 'NR > 1 { print $1 }' | sort -u; }

_rarctl()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} word command='' words=''

	for word in "${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do
		case $word in
		show | box | watch | top | monitor | set | abort | test | record | plot) command=$word && break ;;
		esac
	done
	case $prev in
	-n | -netns | --netns) words=$(ls /run/netns 2> /dev/null) ;;
	-i | -interval | -r | -rounds) return ;;
	box) words=key ;;
	key) mapfile -t COMPREPLY < <(compgen -f -W off -- "$cur") && return ;;
	show) words="members links ops counters settings $(_rarctl_groups)" ;;
	watch | top | monitor | abort | plot | members | links | ops) words=$(_rarctl_groups) ;;
	set) words=$(ls /proc/sys/net/rar 2> /dev/null) ;;
	*)
		case $cur in
		-*) words="-json -pretty -color -color=always -color=auto -color=never -netns
			-interval -rounds -Version -help" ;;
		*)
			case $command in
			'') words="show box watch top monitor set abort test record plot" ;;
			record | plot) mapfile -t COMPREPLY < <(compgen -f -- "$cur") && return ;;
			esac
			;;
		esac
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}

complete -F _rarctl rarctl
