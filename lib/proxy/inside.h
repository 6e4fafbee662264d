/* The inside of a proxy, for the files of lib/proxy. */
#ifndef WR_PROXY_INSIDE_H
#define WR_PROXY_INSIDE_H

#include "io/loop.h"
#include "proxy/forward.h"
#include "proxy/meter.h"
#include "proxy/proxy.h"
#include "upstream/request_gate.h"

struct wr_proxy {
    struct wr_loop *loop;
    const struct wr_proxy_options *options;
    struct wr_cluster *const *clusters;
    struct wr_listener_metrics *metrics;
    struct wr_request_gate *gate;
    struct wr_meter *meter;
    struct wr_forward forward;
    char *name; /* in Proxy-Status */
};

#endif
