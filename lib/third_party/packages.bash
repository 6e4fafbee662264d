# shellcheck shell=bash disable=SC2034
# Debian 12 packages, sourced by setup.
build_packages=(
    ca-certificates clang cmake dpkg-dev g++ gcc libc6-dev libclang-rt-14-dev libcriterion-dev libevent-dev
    libnghttp2-dev libsystemd-dev libyaml-dev ninja-build node-llhttp xz-utils
)
test_packages=(
    clang-format clang-tidy curl dpkg-dev nghttp2-client nghttp2-server nginx-light openssl procps python3 python3-jsonschema python3-yaml
    shellcheck util-linux wrk
)
# npm comes with nodejs where it is not Debian's.
node_packages=(nodejs npm)
bench_packages=(h2o haproxy hitch linux-perf nghttp2-proxy strace valgrind)
