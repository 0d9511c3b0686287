# SPDX-License-Identifier: GPL-2.0
# Targets for people; what the module consists of is in Kbuild.

KDIR ?= /lib/modules/$(shell uname -r)/build
O_KBUILD = $(MAKE) -C $(KDIR) M=$(CURDIR)

# --------------------------------------------------------------------- the modules
.PHONY: all modules_install clean xdp
all: $(KDIR)/Makefile  ## Build the modules for the running kernel, or for KDIR=...
	$(O_KBUILD) modules
	@scripts/lib/module-btf rar.ko $(KDIR) $(VMLINUX) || true

xdp:  ## Build the XDP program (clang, libbpf-dev); scripts/xdp attaches it
	$(MAKE) -s -C tools/xdp

# The key that the kernel's modules are signed with: mostly its builder alone has it, and
# signing would only complain.
SIG_KEY = $(or $(CONFIG_MODULE_SIG_KEY),$(shell sed -n 's/^CONFIG_MODULE_SIG_KEY="\(.*\)"/\1/p' \
	$(KDIR)/include/config/auto.conf 2>/dev/null))
HAVE_KEY = $(filter pkcs11:%,$(SIG_KEY))$(wildcard $(filter /%,$(SIG_KEY)) \
	$(addprefix $(KDIR)/,$(filter-out /%,$(SIG_KEY))))

modules_install: all  ## Install them (root): then "modprobe rar" or socket() load rar
	$(O_KBUILD) modules_install $(if $(HAVE_KEY),,CONFIG_MODULE_SIG_ALL=)
	@$(if $(HAVE_KEY),,$(if $(SIG_KEY),echo "Not signed: no key at $(SIG_KEY); this matters with Secure Boot only.",:))

clean:  ## Remove what was built, for every kernel
	$(MAKE) -s -C selftests/host clean
	rm -rf build
	find . -name .git -prune -o \( -name '*.o' -o -name '*.ko' -o -name '*.mod' \
		-o -name '*.mod.c' -o -name '.*.cmd' -o -name Module.symvers \
		-o -name modules.order \) -type f -exec rm {} +

$(KDIR)/Makefile:
	@echo "No kernel headers at $(KDIR)." >&2
	@echo "On Debian: apt-get install linux-headers-$(shell uname -r)," >&2
	@echo "or name another kernel's: make KDIR=..." >&2
	@false

# --------------------------------------------------------------------- library and tool
.PHONY: lib
lib:  ## Build librar, the library for programs; make -C lib install installs it
	$(MAKE) -s -C lib

.PHONY: rarctl
rarctl:  ## Build rarctl (libmnl-dev); make -C tools/rarctl install installs it
	$(MAKE) -s -C tools/rarctl

.PHONY: deb
deb:  ## Build Debian packages: the module (DKMS), librar, tools, MPI, PyTorch, NCCL
	scripts/deb

# --------------------------------------------------------------------- trying it
# No kernel module is loaded into this machine: scripts/vm boots a guest.
.PHONY: demo test test-full test-debug fuzz model check host-test bench
demo:  ## Show a ring at work in a guest, from nothing, in a few minutes (TORCH=1: PyTorch)
	scripts/demo

test:  ## Test on Debian's 6.1 and 6.12 in guests, and a ring of three guests (T=name,...)
	scripts/test $(if $(T),--tests '$(T)')

test-full:  ## The same with the long tests, and on User-Mode Linux
	scripts/test --full $(if $(T),--tests '$(T)')

test-debug:  ## On a kernel with KASAN, lockdep, kmemleak; every allocation fails (65 minutes)
	scripts/test --kernels uml-debug $(if $(T),--tests '$(T)')

fuzz:  ## Random calls and mutants of packets on that kernel (10 minutes; FUZZ_S=seconds SEED=n)
	scripts/fuzz

check:  ## Style and static checkers; says which Debian packages are missing and installs them
	scripts/check

host-test:  ## The pure parts (schedule, reductions) in user space, in 2 minutes
	$(MAKE) -s -C selftests/host test

bench:  ## Against TCP, Gloo, MPI and the speed of light (20 minutes; BENCH="--help")
	scripts/bench $(BENCH)

model:  ## The protocol as a model: spin looks at all its runs, in minutes
	scripts/model

# ---------------------------------------------------------------------
.PHONY: help
help:  ## This list
	@echo "AF_RAR: a socket family for ring all-reduce in the kernel"
	@sed -n 's/^\([a-z_-]*\):.*## \(.*\)/  \1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
		awk -F'|' '{ printf "%-18s%s\n", $$1, $$2 }'
	@echo
	@echo "  scripts/vm --help runs any command in a guest, with any kernel."
	@echo "  Downloads and kernels are kept in $${RAR_CACHE:-~/.cache/rar}."
