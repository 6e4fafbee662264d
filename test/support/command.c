#include "support/command.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND_MAX 8192

static char *read_all(FILE *file)
{
    size_t room = 65536;
    size_t n = 0;
    size_t got;
    char *text = malloc(room);

    while ((got = fread(text + n, 1, room - n - 1, file)) > 0) {
        n += got;
        if (room - n < 4096) {
            room *= 2;
            text = realloc(text, room);
        }
    }
    text[n] = '\0';
    return text;
}

int command_run(int seconds, char **output, const char *format, ...)
{
    char script[] = "/tmp/weir-command-XXXXXX";
    char command[COMMAND_MAX];
    char line[256];
    va_list args;

    va_start(args, format);
    int n = vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    cr_assert(n > 0 && (size_t)n < sizeof(command));
    int fd = mkstemp(script);
    cr_assert(fd >= 0 && write(fd, command, (size_t)n) == n);
    (void)close(fd);
    (void)snprintf(line, sizeof(line), "timeout %d sh '%s' 2>&1 </dev/null", seconds, script);
    FILE *pipe = popen(line, "r");
    cr_assert_not_null(pipe);
    *output = read_all(pipe);
    int status = pclose(pipe);
    (void)unlink(script);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
