import { z } from 'zod';
import { escapeLiteral } from '../../protocol/index.ts';

/** The JSON lines on restic's error output: `error` for one file, and `exit_error` at the end since 0.18. */

const ExitError = z.object({ message_type: z.literal('exit_error'), message: z.string() });
const ItemError = z.object({
  message_type: z.literal('error'),
  item: z.string().optional(),
  message: z.string().optional(),
  error: z
    .object({ message: z.string().optional(), Err: z.union([z.number(), z.string()]).optional() })
    .nullish(),
});

export type ErrorMessage =
  | { type: 'exit_error'; text: string }
  /** `text` is empty before 0.17.1, which prints the error as an object without its text. */
  | { type: 'error'; item: string; text: string };

export function parseMessage(line: string): ErrorMessage | undefined {
  const value = parseJson(line);
  const end = ExitError.safeParse(value);
  if (end.success) return { type: 'exit_error', text: end.data.message };
  const item = ItemError.safeParse(value);
  if (!item.success) return undefined;
  const { error, message } = item.data;
  const text = error?.message ?? message ?? reasonOf(error?.Err);
  return { type: 'error', item: printedAsPath(item.data.item ?? ''), text };
}

/** `undefined` if the text is not a JSON object. */
export function parseJson(line: string): unknown {
  if (!line.startsWith('{')) return undefined;
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return undefined;
  }
}

/** Paths of Windows, where a backslash separates names, stay as they are. */
const printedAsPath = (item: string) => (process.platform === 'win32' ? item : escapeLiteral(item));

/** Empty if restic prints no reason. */
const reasonOf = (number: number | string | undefined): string =>
  typeof number === 'number' ? errorNumberText(number) : (number ?? '');

/**
 * The operating system's text for an error number. restic before 0.17.1 prints only the number, and runs on the same
 * system as this program.
 */

type Table = Readonly<Record<number, string>>;

const LINUX: Table = {
  1: 'operation not permitted',
  2: 'no such file or directory',
  4: 'interrupted system call',
  5: 'input/output error',
  6: 'no such device or address',
  7: 'argument list too long',
  9: 'bad file descriptor',
  11: 'resource temporarily unavailable',
  12: 'cannot allocate memory',
  13: 'permission denied',
  14: 'bad address',
  16: 'device or resource busy',
  17: 'file exists',
  19: 'no such device',
  20: 'not a directory',
  21: 'is a directory',
  22: 'invalid argument',
  23: 'too many open files in system',
  24: 'too many open files',
  26: 'text file busy',
  27: 'file too large',
  28: 'no space left on device',
  30: 'read-only file system',
  34: 'numerical result out of range',
  36: 'file name too long',
  38: 'function not implemented',
  40: 'too many levels of symbolic links',
  42: 'no message of desired type',
  52: 'invalid exchange',
  61: 'no data available',
  62: 'timer expired',
  70: 'communication error on send',
  71: 'protocol error',
  72: 'multihop attempted',
  74: 'bad message',
  75: 'value too large for defined data type',
  84: 'invalid or incomplete multibyte or wide character',
  85: 'interrupted system call should be restarted',
  95: 'operation not supported',
  103: 'software caused connection abort',
  104: 'connection reset by peer',
  107: 'transport endpoint is not connected',
  108: 'cannot send after transport endpoint shutdown',
  110: 'connection timed out',
  111: 'connection refused',
  112: 'host is down',
  113: 'no route to host',
  115: 'operation now in progress',
  116: 'stale file handle',
  117: 'structure needs cleaning',
  121: 'remote I/O error',
  122: 'disk quota exceeded',
  123: 'no medium found',
  124: 'wrong medium type',
  125: 'operation canceled',
  126: 'required key not available',
  127: 'key has expired',
  128: 'key has been revoked',
  129: 'key was rejected by service',
  131: 'state not recoverable',
  132: 'operation not possible due to RF-kill',
};

const MACOS: Table = {
  1: 'operation not permitted',
  2: 'no such file or directory',
  4: 'interrupted system call',
  5: 'input/output error',
  6: 'device not configured',
  9: 'bad file descriptor',
  11: 'resource deadlock avoided',
  12: 'cannot allocate memory',
  13: 'permission denied',
  14: 'bad address',
  16: 'resource busy',
  20: 'not a directory',
  21: 'is a directory',
  22: 'invalid argument',
  23: 'too many open files in system',
  24: 'too many open files',
  26: 'text file busy',
  27: 'file too large',
  35: 'resource temporarily unavailable',
  45: 'operation not supported',
  57: 'socket is not connected',
  60: 'operation timed out',
  62: 'too many levels of symbolic links',
  63: 'file name too long',
  64: 'host is down',
  70: 'stale NFS file handle',
  81: 'need authenticator',
  84: 'value too large to be stored in data type',
  92: 'illegal byte sequence',
  93: 'attribute not found',
  96: 'no message available on STREAM',
};

const WINDOWS: Table = {
  2: 'the file cannot be found',
  3: 'the path cannot be found',
  5: 'access is denied',
  21: 'the device is not ready',
  23: 'data error (cyclic redundancy check)',
  32: 'another program uses the file',
  33: 'another program has locked a part of the file',
  53: 'the network path was not found',
  59: 'an unexpected network error occurred',
  64: 'the network name is no longer available',
  65: 'network access is denied',
  67: 'the network name cannot be found',
  87: 'the parameter is incorrect',
  123: 'the name of the file is not valid',
  161: 'the path is not valid',
  206: 'the file name is too long',
  225: 'the file contains a virus',
  267: 'the name of the folder is not valid',
  362: 'the provider of the cloud file is not running',
  383: 'the cloud file is not available',
  1117: 'an I/O device error occurred',
  1392: 'the file or folder is damaged and cannot be read',
  1920: 'the system cannot access the file',
  1921: 'the name of the file cannot be resolved',
  6000: 'the file could not be encrypted',
  6002: 'the file could not be decrypted',
};

const TABLES: Partial<Record<NodeJS.Platform, Table>> = { darwin: MACOS, win32: WINDOWS };

/** Never empty: an unknown number is named. */
export const errorNumberText = (number: number, platform: NodeJS.Platform = process.platform): string =>
  (TABLES[platform] ?? LINUX)[number] ?? `error ${number} of the operating system`;
