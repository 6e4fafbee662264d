/* Why request admission refused a request (shed.def). */
#ifndef WR_BASE_SHED_H
#define WR_BASE_SHED_H

enum wr_shed {
#define SHED(name, label, text) WR_SHED_##name,
#include "base/shed.def"
#undef SHED
    WR_SHED__COUNT
};

const char *wr_shed_label(enum wr_shed cause);
const char *wr_shed_text(enum wr_shed cause);

#endif
