# SPDX-License-Identifier: GPL-2.0
# The front door; `make help` says what there is.  Kbuild holds the modules, tests/ the rest.

KDIR ?= /lib/modules/$(shell uname -r)/build
PREFIX ?= /usr/local
DESTDIR ?=
root := tests/cluster/root

all: modules

help:
	@echo "For this machine:"
	@echo "  make, make modules     the modules, for the kernel in KDIR ($(KDIR))"
	@echo "  make tools             the dlend command (needs pkgconf, libpci-dev, libjansson-dev, libsmartcols-dev, libxml2-dev)"
	@echo "  sudo make install      all of it: the command under PREFIX ($(PREFIX)), the rest where"
	@echo "                         the system looks for it; DESTDIR in front"
	@echo "  make deb               Debian packages, in build/deb (needs debhelper, dh-dkms)"
	@echo "  make rpm               packages for other distributions, in build/rpm (needs rpm-build)"
	@echo "  make docs              the book, in build/docs (needs python3-sphinx, python3-myst-parser)"
	@echo
	@echo "To try and to test; hosts are emulated, nothing of this machine is changed but"
	@echo "packages and the cache (DLEND_CACHE, ~/.cache/dlend); needs root once (sudo):"
	@echo "  make demo              a guest on one host uses a disk of another, narrated"
	@echo "  make picture           the same, recorded: docs/demo.svg, the animated picture of the front page"
	@echo "  make demo-live         a running VM moves to another host, and its disk stays, narrated"
	@echo "  make check             the tests: whatever needs no hosts, and the main path on hosts;"
	@echo "                         the last line is \"N passed, N failed\""
	@echo "  make check ALSO=more   those, too, that would make it last most of an hour; CI does so"
	@echo "                         with WITHIN=MINUTES, as long as there is time, and says what it left out"
	@echo "  make check-long        what is left out of both, and repetitions at full length"
	@echo "  make check-debug       the scenarios on a kernel with lockdep, kmemleak, KASAN and UBSAN; hours, so that"
	@echo "                         one that was stopped goes on where it was, if the code is the same (FRESH=1: all)"
	@echo "  make check-6.12        the scenarios on hosts that run Debian's 6.12"
	@echo "  make bench             the lent disk against the same disk passed through locally; moves; tenants"
	@echo "  make lint              checkpatch, sparse, codespell and the like"
	@echo "  make build-all         modules for both supported kernels, tools, emulator"
	@echo "  make clean, distclean  forget what was built; and the cache as well"
	@echo
	@echo "One of the steps of check: tests/run STEP (tests/run --list)."

# For this machine

# What dlend-ntb-dkms or dlend-build-ntb left for a kernel without NTB drivers of its own
release := $(notdir $(patsubst %/,%,$(dir $(KDIR))))
ntb := $(firstword $(wildcard $(dir $(KDIR))updates/dlend-ntb/Module.symvers \
		/var/lib/dkms/dlend-ntb/kernel-$(release)-*/module/Module.symvers))

modules:
	$(MAKE) -C $(KDIR) M=$(CURDIR) $(if $(ntb),CONFIG_NTB=m KBUILD_EXTRA_SYMBOLS=$(ntb)) modules

modules_install:
	$(MAKE) -C $(KDIR) M=$(CURDIR) $(if $(DESTDIR),INSTALL_MOD_PATH=$(DESTDIR)) \
		$(if $(ntb),CONFIG_NTB=m) modules_install

tools:
	$(MAKE) -C tools O=$(CURDIR)/build/bin

install: modules_install install-files

# Without the modules. Files of an admin's own are left as they are.
config = [ -e $(DESTDIR)/etc/$(2) ] || install -D -m 644 $(1) $(DESTDIR)/etc/$(2)
share := $(DESTDIR)$(PREFIX)/share
lib := $(DESTDIR)/usr/lib
zsh := $(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)

install-files:
	@test -x build/bin/dlend || { echo "build/bin/dlend is not there: run make tools first"; exit 1; }
	install -D -m 755 build/bin/dlend $(DESTDIR)$(PREFIX)/sbin/dlend
	install -D -m 755 dist/dlend-build-ntb $(DESTDIR)$(PREFIX)/sbin/dlend-build-ntb
	install -D -m 755 dist/ntb/ntb-drivers $(lib)/dlend/ntb/ntb-drivers
	install -m 644 dist/ntb/Kbuild $(lib)/dlend/ntb
	install -d $(share)/man/man8 $(share)/man/man5
	install -m 644 tools/*.8 $(share)/man/man8
	install -m 644 tools/*.5 $(share)/man/man5
	install -D -m 755 dist/complete $(lib)/dlend/complete
	install -D -m 644 dist/dlend.bash-completion $(share)/bash-completion/completions/dlend
	install -D -m 644 dist/dlend.zsh-completion $(share)/zsh/$(zsh)/_dlend
	install -D -m 644 dist/dlend.fish $(share)/fish/vendor_completions.d/dlend.fish
	install -D -m 755 mdevctl.d/dlend $(lib)/mdevctl/scripts.d/callouts/dlend
	install -D -m 755 dist/start-mdevs $(lib)/dlend/start-mdevs
	install -D -m 755 dist/attach-now $(lib)/dlend/attach-now
	install -D -m 755 dist/claim-device $(lib)/dlend/claim-device
	install -D -m 755 dist/start-domains $(lib)/dlend/start-domains
	install -m 755 tools/bench tools/migrate build/bin/bartimes $(lib)/dlend
	for dir in measurement migration remote; do install -d $(lib)/dlend/$$dir && \
		install -m 644 tools/$$dir/*.py $(lib)/dlend/$$dir || exit 1; done
	install -D -m 755 dist/libvirt-mdevs $(lib)/dlend/libvirt-mdevs
	install -D -m 644 dist/61-dlend.rules $(lib)/udev/rules.d/61-dlend.rules
	install -D -m 644 dist/61-dlend-claim.rules $(lib)/udev/rules.d/61-dlend-claim.rules
	install -D -m 644 dist/modules-load.conf $(lib)/modules-load.d/dlend.conf
	install -D -m 644 dist/modprobe-ntb.conf $(lib)/modprobe.d/dlend-ntb.conf
	install -d $(lib)/systemd/system
	install -m 644 dist/dlend-lend.service dist/dlend-mdevs@.service dist/dlend-attach@.service \
		dist/dlend-metrics.service dist/dlend-metrics.timer $(lib)/systemd/system
	install -D -m 644 dist/dlend-alerts.yml $(share)/dlend/dlend-alerts.yml
	install -D -m 644 dist/dlend-dashboard.json $(share)/dlend/dlend-dashboard.json
	install -d $(share)/dlend/schema
	install -m 644 dist/schema/*.json $(share)/dlend/schema
	install -d $(share)/doc/dlend/docs
	install -m 644 README.md $(share)/doc/dlend
	install -m 644 docs/*.md docs/guest-picture.svg $(share)/doc/dlend/docs
	install -D -m 755 dist/libvirt-hook $(DESTDIR)/etc/libvirt/hooks/qemu.d/dlend
	$(call config,dist/dlend.conf,dlend.conf)
	$(call config,dist/modprobe.conf,modprobe.d/dlend.conf)

# Folders with sources of the modules, as Kbuild names them: what a package of sources needs.
folders = $(shell $(CURDIR)/tests/module-folders)

print-folders:
	@echo $(folders)

# What DKMS builds the modules from
install-sources:
	install -d $(DESTDIR)/usr/src/dlend-$(VERSION)
	cp -r Kbuild $(folders) $(DESTDIR)/usr/src/dlend-$(VERSION)

not_sources := --exclude=./build --exclude=./.git --exclude='*.o' --exclude='*.ko' --exclude='.*.cmd' --exclude='*.mod' \
	--exclude='*.mod.c' --exclude=Module.symvers --exclude=modules.order --exclude=__pycache__

# The build writes beside its sources and puts packages into the directory above.
deb:
	rm -rf build/deb
	mkdir -p build/deb/dlend
	tar -c $(not_sources) . | tar -x -C build/deb/dlend
	cd build/deb/dlend && dpkg-buildpackage -b -us -uc $(DEBFLAGS)
	@ls build/deb/*.deb

rpm:
	rm -rf build/rpm
	mkdir -p build/rpm
	version=$$(sed -n 's/^Version: *//p' dist/dlend.spec) && \
		tar -czf build/rpm/dlend-$$version.tar.gz $(not_sources) --transform="s,^\.,dlend-$$version," .
	rpmbuild -bb --define '_topdir $(CURDIR)/build/rpm' --define '_sourcedir %{_topdir}' $(RPMFLAGS) dist/dlend.spec
	@ls build/rpm/RPMS/*/*.rpm

# To try and to test

docs:
	@command -v sphinx-build >/dev/null || { echo "install python3-sphinx and python3-myst-parser first" >&2; exit 1; }
	@sphinx-build -q -W --keep-going -d build/doctrees -b html docs build/docs && echo build/docs/README.html

setup:
	@tests/setup

build-all: setup
	@tests/build 7.2
	@tests/build 6.12
	@tests/build tools

build-debug: setup
	@tests/build debug

lint: setup
	@tests/run lint

check: setup
	@tests/run $(if $(ALSO),--also $(ALSO)) $(if $(WITHIN),--within $(WITHIN))

check-long: build-all
	@DLEND_LONG=1 tests/run rest long families cluster/82-disks cluster/84-nics cluster/95-cycles

check-debug: build-all build-debug
	@tests/cluster/on debug tests/run $(if $(FRESH),,--resume) cluster more rest debug
	@DLEND_LONG=1 tests/cluster/on debug tests/run cluster/82-disks cluster/95-cycles

check-6.12: build-all
	@tests/cluster/on 6.12 tests/run cluster more rest

demo: build-all
	@tests/demo/run

picture: build-all
	@tests/demo/run | tee build/demo.log
	@tests/demo/picture build/demo.log docs/demo.svg

demo-live: build-all
	@tests/demo/live

bench: build-all
	@bench/run
	@bench/moves
	@bench/tenants

clean:
	rm -rf build
	find . -path ./.git -prune -o \( -name '*.o' -o -name '*.ko' -o -name '*.mod' -o -name '*.mod.c' \
		-o -name '.*.cmd' -o -name Module.symvers -o -name modules.order \) -type f -exec rm -f {} +

distclean: clean
	@echo "this forgets the Debian trees and kernels too; the next check is a cold one"
	$(if $(filter-out 0,$(shell id -u)),sudo) rm -rf "$${DLEND_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/dlend}"

.PHONY: all help print-folders modules modules_install tools install install-files install-sources deb rpm setup build-all build-debug lint check check-debug check-6.12
.PHONY: check-long docs demo picture demo-live bench clean distclean
