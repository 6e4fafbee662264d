/* The inside of a proxy, for the files of lib/proxy. */
#ifndef WR_PROXY_INSIDE_H
#define WR_PROXY_INSIDE_H

#include "io/loop.h"
#include "proxy/forward.h"
#include "proxy/proxy.h"

struct wr_proxy {
    struct wr_loop *loop;
    const struct wr_proxy_options *options;
    struct wr_cluster *const *clusters;
    struct wr_forward forward;
    char *name; /* in Proxy-Status */
};

#endif
