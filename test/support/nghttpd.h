/* nghttp2's server as a real HTTP/2 upstream. */
#ifndef TEST_SUPPORT_NGHTTPD_H
#define TEST_SUPPORT_NGHTTPD_H

#include <stdbool.h>

struct nghttpd;

/* Runs it until nghttpd_stop() with the folder's files on a port of 127.0.0.1, TLS with a certificate for localhost and 127.0.0.1 or plain;
 * content that is sent to it comes back. Waits until it accepts. */
struct nghttpd *nghttpd_start(bool tls);
void nghttpd_stop(struct nghttpd *nghttpd);
int nghttpd_port(const struct nghttpd *nghttpd);
const char *nghttpd_dir(const struct nghttpd *nghttpd);

#endif
