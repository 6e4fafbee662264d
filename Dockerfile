# syntax=docker/dockerfile:1
# docker build -t weir . && docker run -p 8443:8443 -v "$PWD/site:/etc/weir" weir
# The folder mounted at /etc/weir holds weir.yaml and what it names; relative paths in it start there.

FROM debian:12 AS build
WORKDIR /src
# First what changes seldom, so that packages and BoringSSL stay in the layer cache.
COPY lib/third_party lib/third_party
ENV WEIR_CACHE=/var/cache/weir
RUN lib/third_party/setup
COPY . .
RUN cmake -S . -B /build -G Ninja -DWEIR_PRESET=release \
    && cmake --build /build --target weir \
    && install -D -s /build/bin/weir /image/usr/local/bin/weir \
    # Shared libraries beyond the C library, wherever this build found them.
    && mkdir -p /image/usr/local/lib/weir \
    && ldd /build/bin/weir | awk '/=> \// {print $3}' \
        | grep -Ev '/(libc|libm|libpthread|libdl|ld-linux[^/]*)\.so' \
        | xargs -r cp -L -t /image/usr/local/lib/weir

FROM debian:12-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin weir
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /image /
RUN echo /usr/local/lib/weir > /etc/ld.so.conf.d/weir.conf && ldconfig && weir version
WORKDIR /etc/weir
USER weir
EXPOSE 8443
STOPSIGNAL SIGTERM
# Without an admin server in weir.yaml there is nobody to ask, and this says so.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["weir", "health", "-c", "weir.yaml"]
ENTRYPOINT ["weir"]
CMD ["run", "-c", "weir.yaml"]
