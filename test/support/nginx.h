/* Debian's nginx as a real upstream, with a configuration of the test's own. */
#ifndef TEST_SUPPORT_NGINX_H
#define TEST_SUPPORT_NGINX_H

struct nginx;

/* Runs nginx until nginx_stop() with the folder's files below www/ on ports of 127.0.0.1: plain, and TLS with a certificate for
 * localhost and 127.0.0.1, of either for HTTP/1.1 and for HTTP/2. HTTP and SERVER are directives for these blocks; NULL: none. Waits until it accepts. */
struct nginx *nginx_start(const char *http, const char *server);
void nginx_stop(struct nginx *nginx);
int nginx_port(const struct nginx *nginx);
int nginx_tls_port(const struct nginx *nginx);
int nginx_h2_port(const struct nginx *nginx); /* with prior knowledge */
int nginx_h2_tls_port(const struct nginx *nginx);
/* Holds www/, cert.pem, key.pem and access.log, which has a line a request: "connection status request". */
const char *nginx_dir(const struct nginx *nginx);
/* SIGHUP: new worker processes, the old ones end. */
void nginx_reload(const struct nginx *nginx);

#endif
