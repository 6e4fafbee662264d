/* The files of dashboard/, made part of the program by embed.cmake. */
#ifndef WR_SERVER_DASHBOARD_H
#define WR_SERVER_DASHBOARD_H

#include <stddef.h>

extern const unsigned char wr_embedded_index_html[];
extern const size_t wr_embedded_index_html_size;
extern const unsigned char wr_embedded_dashboard_css[];
extern const size_t wr_embedded_dashboard_css_size;
extern const unsigned char wr_embedded_dashboard_js[];
extern const size_t wr_embedded_dashboard_js_size;

#endif
