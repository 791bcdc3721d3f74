// Stands for a program of Windows that Wine does not have. It sends its name, its arguments and some variables to
// the test over TCP, prints the bytes that come back, and ends with the code that the test says. The port is the
// content of C:\stand-ins\port.
//
// Request: the length as 4 bytes (little endian), and then UTF-8 texts that each end with a zero byte: the number of
// words, the words, and the variables. Answer: frames of a kind (0 exit, 1 output, 2 errors), a length as 4 bytes, and
// bytes; those of the exit are its code in decimal.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winsock2.h>
#include <windows.h>

static char request[1 << 20];
static size_t used = 4;

static void add(const wchar_t *text) {
  int room = (int)(sizeof request - used);
  int length = WideCharToMultiByte(CP_UTF8, 0, text, -1, request + used, room, NULL, NULL);
  if (length <= 0) exit(121);
  used += (size_t)length;
}

static int receive(SOCKET to, char *bytes, int length) {
  for (int got = 0; got < length;) {
    int some = recv(to, bytes + got, length - got, 0);
    if (some <= 0) return 0;
    got += some;
  }
  return 1;
}

static void print(HANDLE out, const char *bytes, DWORD length) {
  for (DWORD done = 0, some = 0; done < length; done += some) {
    if (!WriteFile(out, bytes + done, length - done, &some, NULL)) exit(122);
  }
}

int wmain(int argc, wchar_t **argv) {
  wchar_t count[16];
  swprintf(count, 16, L"%d", argc);
  add(count);
  for (int at = 0; at < argc; at++) add(argv[at]);
  for (wchar_t *entry = GetEnvironmentStringsW(); *entry; entry += wcslen(entry) + 1) {
    if (wcsncmp(entry, L"MUSTER_", 7) == 0 || wcsncmp(entry, L"PARAM_", 6) == 0 || wcsncmp(entry, L"PYTHON", 6) == 0) {
      add(entry);
    }
  }
  DWORD size = (DWORD)(used - 4);
  memcpy(request, &size, 4);

  FILE *file = fopen("C:\\stand-ins\\port", "r");
  int port = 0;
  if (file == NULL || fscanf(file, "%d", &port) != 1) return 123;
  fclose(file);
  WSADATA data;
  WSAStartup(MAKEWORD(2, 2), &data);
  SOCKET to = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {0};
  address.sin_family = AF_INET;
  address.sin_port = htons((unsigned short)port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(to, (struct sockaddr *)&address, sizeof address) != 0) return 124;
  if (send(to, request, (int)used, 0) != (int)used) return 125;

  for (;;) {
    char head[5];
    DWORD length;
    if (!receive(to, head, 5)) return 126;
    memcpy(&length, head + 1, 4);
    char *bytes = malloc(length + 1);
    if (bytes == NULL || !receive(to, bytes, (int)length)) return 126;
    bytes[length] = 0;
    if (head[0] == 0) return atoi(bytes);
    print(GetStdHandle(head[0] == 1 ? STD_OUTPUT_HANDLE : STD_ERROR_HANDLE), bytes, length);
    free(bytes);
  }
}
