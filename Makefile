# Thin on purpose: everything real is cargo or xtask.
PREFIX ?= /usr/local
export PREFIX

.PHONY: run test bench bench-net bench-sim install docs wheel nightly tidy ci
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
wheel:
	cargo xtask wheel
nightly:
	cargo xtask nightly
tidy:
	cargo xtask tidy
ci:
	.ci/run
