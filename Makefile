# Thin on purpose: everything real is cargo or xtask.
PREFIX ?= /usr/local
export PREFIX

.PHONY: run test bench bench-net bench-sim install tidy ci
run:
	cargo xtask run
test:
	cargo xtask test
bench:
	cargo xtask bench
bench-net:
	cargo xtask net-test --measure
bench-sim:
	cargo run --release -p ayatori -- sim bench
install:
	cargo xtask install
tidy:
	cargo xtask tidy
ci:
	.ci/run
