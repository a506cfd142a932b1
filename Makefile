# Thin on purpose: everything real is cargo or xtask.
PREFIX ?= /usr/local
export PREFIX

.PHONY: run test bench install tidy ci
run:
	cargo xtask run
test:
	cargo xtask test
bench:
	cargo xtask bench
install:
	cargo xtask install
tidy:
	cargo xtask tidy
ci:
	.ci/run
