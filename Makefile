# Thin on purpose: everything real is cargo or xtask.
PREFIX ?= /usr/local
export PREFIX

.PHONY: run test bench bench-net bench-sim install docs nightly tidy ci
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
docs:
	cargo xtask docs
nightly:
	cargo xtask nightly
tidy:
	cargo xtask tidy
ci:
	.ci/run
