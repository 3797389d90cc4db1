// SPDX-License-Identifier: MIT
// Programs whose threads wait for long for another process, a file, an event or a slow answer, and will wake. Each is a
// mode, named by the argument; without one the names are listed.
#include "queue.h"
#include "wakes.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t semaphore;
static int pipes[2][2];

// Everything that programs share with a child.
struct common {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    sem_t semaphore;
    atomic_int n_there;
};

static struct common *common;

static void start_common(void)
{
    common = shared_memory(sizeof(*common));
    pthread_condattr_t attributes;

    init_mutex(&common->mutex, PTHREAD_MUTEX_NORMAL, 1, 1);
    pthread_condattr_init(&attributes);
    pthread_condattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&common->cond, &attributes);
    sem_init(&common->semaphore, 1, 0);
}

static bool is_child(void)
{
    if (fork() != 0)
        return false;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return true;
}

static void *lock_first(void *unused)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *lock_and_read(void *unused)
{
    pthread_mutex_lock(&mutex);
    arrive_and_await(0);
    read_byte(pipes[0][0]);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void owner_reads_from_child(void)
{
    pthread_t waiter;

    if (pipe(pipes[0]) != 0)
        exit(2);
    if (is_child()) {
        sleep(1000);
        write_byte(pipes[0][1]);
        _exit(0);
    }
    close(pipes[0][1]);
    start_thread(lock_and_read, NULL);
    while (atomic_load(&n_there) < 1)
        usleep(1000);
    waiter = start_thread(lock_first, NULL);
    say_ready();
    pthread_join(waiter, NULL);
}

static void *lock_and_die(void *unused)
{
    pthread_mutex_lock(&common->mutex);
    return unused;
}

static void *recover_and_hold(void *unused)
{
    if (pthread_mutex_lock(&common->mutex) == EOWNERDEAD)
        pthread_mutex_consistent(&common->mutex);
    arrive_and_await(0);
    sleep(1000);
    pthread_mutex_unlock(&common->mutex);
    return unused;
}

static void robust_and_recovered(void)
{
    start_common();
    pthread_join(start_thread(lock_and_die, NULL), NULL);
    start_thread(recover_and_hold, NULL);
    while (atomic_load(&n_there) < 1)
        usleep(1000);
    say_ready();
    pthread_mutex_lock(&common->mutex);
}

// ---- other processes

static void owner_in_child(void)
{
    start_common();
    if (is_child()) {
        pthread_mutex_lock(&common->mutex);
        atomic_store(&common->n_there, 1);
        sleep(1000);
        pthread_mutex_unlock(&common->mutex);
        _exit(0);
    }
    while (atomic_load(&common->n_there) < 1)
        usleep(1000);
    say_ready();
    pthread_mutex_lock(&common->mutex);
}

static void *consume_common(void *unused)
{
    for (;;)
        take_item(&common->mutex, &common->cond);
    return unused;
}

static void condition_of_child(void)
{
    pthread_t thread;

    start_common();
    if (is_child()) {
        sleep(1000);
        put_item(&common->mutex, &common->cond);
        _exit(0);
    }
    thread = start_thread(consume_common, NULL);
    say_ready();
    pthread_join(thread, NULL);
}

static void *post_common(void *unused)
{
    sem_post(&common->semaphore);
    return unused;
}

static void *take_common(void *unused)
{
    for (;;)
        sem_wait(&common->semaphore);
    return unused;
}

static void semaphore_of_child(void)
{
    pthread_t thread;

    start_common();
    if (is_child()) {
        sleep(1000);
        sem_post(&common->semaphore);
        _exit(0);
    }
    pthread_join(start_thread(post_common, NULL), NULL);
    thread = start_thread(take_common, NULL);
    say_ready();
    pthread_join(thread, NULL);
}

static void *read_first_pipe(void *unused)
{
    for (;;)
        read_byte(pipes[0][0]);
    return unused;
}

static void *write_first_pipe(void *unused)
{
    for (int i = 0; i < 5; i++)
        write_byte(pipes[0][1]);
    return unused;
}

static void pipe_of_child(void)
{
    pthread_t reader;

    if (pipe(pipes[0]) != 0)
        exit(2);
    if (is_child()) {
        sleep(1000);
        write_byte(pipes[0][1]);
        _exit(0);
    }
    reader = start_thread(read_first_pipe, NULL);
    pthread_join(start_thread(write_first_pipe, NULL), NULL);
    say_ready();
    pthread_join(reader, NULL);
}

// Puts a descriptor into a socket.
static void send_descriptor(int to, int descriptor)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))}};
    struct iovec data = {"x", 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

    memcpy(CMSG_DATA(&control.header), &descriptor, sizeof(descriptor));
    if (sendmsg(to, &message, 0) != 1)
        exit(2);
}

// The child has not yet received the end that it will write to.
static void end_in_a_socket(void)
{
    pthread_t reader;
    int sockets[2];

    if (pipe(pipes[0]) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
        exit(2);
    if (is_child()) {
        close(pipes[0][0]);
        close(pipes[0][1]);
        sleep(1000);
        _exit(0);
    }
    close(sockets[1]);
    send_descriptor(sockets[0], pipes[0][1]);
    reader = start_thread(read_first_pipe, NULL);
    say_ready();
    pthread_join(reader, NULL);
}

static void *answer_slowly(void *unused)
{
    for (;;) {
        read_byte(pipes[0][0]);
        sleep(1000);
        write_byte(pipes[1][1]);
    }
    return unused;
}

static void slow_answer(void)
{
    if (pipe(pipes[0]) != 0 || pipe(pipes[1]) != 0)
        exit(2);
    start_thread(answer_slowly, NULL);
    write_byte(pipes[0][1]);
    say_ready();
    read_byte(pipes[1][0]);
}

static void *hold_file(void *unused)
{
    int fd = open("/proc/self/exe", O_RDONLY);

    flock(fd, LOCK_EX);
    arrive_and_await(0);
    sleep(1000);
    close(fd);
    return unused;
}

static void file_lock(void)
{
    start_thread(hold_file, NULL);
    while (atomic_load(&n_there) < 1)
        usleep(1000);
    say_ready();
    flock(open("/proc/self/exe", O_RDONLY), LOCK_EX);
}

// ---- semaphores and events that another thread posts

static void *take_one(void *unused)
{
    sem_wait(&semaphore);
    return unused;
}

// The thread that took the semaphore has ended; main, which never took it, posts.
static void taken_by_the_ended(void)
{
    sem_init(&semaphore, 0, 1);
    pthread_join(start_thread(take_one, NULL), NULL);
    start_thread(take_one, NULL);
    say_ready();
    sleep(1000);
    sem_post(&semaphore);
}

static _Alignas(16) char stack_of_clone[65536];

static int post_late(void *unused)
{
    syscall(SYS_nanosleep, &(struct timespec){.tv_sec = 1000}, NULL);
    sem_post(&semaphore);
    syscall(SYS_exit, 0);
    return unused != NULL;
}

// A process that has the same memory, and is no thread.
static void sharer_of_memory(void)
{
    pthread_t thread;

    sem_init(&semaphore, 0, 0);
    if (clone(post_late, stack_of_clone + sizeof(stack_of_clone), CLONE_VM | SIGCHLD, NULL) < 0)
        exit(2);
    thread = start_thread(take_one, NULL);
    say_ready();
    pthread_join(thread, NULL);
}

static void *read_event(void *argument)
{
    eventfd_t value;

    eventfd_read(*(int *)argument, &value);
    return NULL;
}

static void event_of_main(void)
{
    int event = eventfd(0, 0);

    start_thread(read_event, &event);
    say_ready();
    sleep(1000);
    eventfd_write(event, 1);
}

#define MODE(name)  \
    {               \
#name, name \
    }
static const struct mode modes[] = {
    MODE(owner_reads_from_child), MODE(robust_and_recovered), MODE(owner_in_child),  MODE(condition_of_child),
    MODE(semaphore_of_child),     MODE(pipe_of_child),        MODE(slow_answer),     MODE(file_lock),
    MODE(taken_by_the_ended),     MODE(event_of_main),        MODE(end_in_a_socket), MODE(sharer_of_memory),
};

int main(int argc, char **argv)
{
    return run_mode(modes, sizeof(modes) / sizeof(modes[0]), argc, argv);
}
