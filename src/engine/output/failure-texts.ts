import type { EngineCode } from '../engine-error.ts';
import { parseMessage } from './message.ts';

/** What restic's texts and exit codes mean. The texts were seen with 0.14, those of later versions were read. */

/** In this order: a server that does not answer also makes restic say that it cannot open the configuration. */
const TEXTS: readonly { text: RegExp; code: EngineCode }[] = [
  // Its `E_ACCESSDENIED` is not the destination's.
  { text: /\bVSS error: /, code: 'SHADOW_COPY_DENIED' },
  { text: /invalid pattern\(s\) provided/i, code: 'EXCLUDE_INVALID' },
  { text: /wrong password or no key found/i, code: 'WRONG_KEY' },
  { text: /already locked( exclusively)? by/i, code: 'REPOSITORY_LOCKED' },
  { text: /no matching ID found/i, code: 'SNAPSHOT_MISSING' },
  { text: /path .{0,5000} not found in snapshot|: path .{0,5000}: not found$/i, code: 'PATH_MISSING' },
  { text: /unknown (shorthand )?flag|unknown command/i, code: 'ENGINE_TOO_OLD' },
  {
    text: /config file already exists|repository .{0,1000} already (exists|initialized)/i,
    code: 'REPOSITORY_EXISTS',
  },
  {
    text: /\(507\)|insufficient storage|no space left on device|not enough space|quota/i,
    code: 'DESTINATION_FULL',
  },
  {
    text: /\(40[13]\)|\b40[13] (unauthorized|forbidden)|access ?denied|signature we calculated/i,
    code: 'DESTINATION_DENIED',
  },
  { text: /InvalidAccessKeyId|access key id you provided does not exist/i, code: 'DESTINATION_DENIED' },
  { text: /x509|tls: /i, code: 'DESTINATION_UNTRUSTED' },
  { text: /bucket does not exist|NoSuchBucket/i, code: 'BUCKET_MISSING' },
  {
    text: /connection (refused|reset)|no such host|no route to host|network is unreachable|i\/o timeout|timeout awaiting|deadline exceeded|server misbehaving|unexpected EOF|\(50[0234]\)/i,
    code: 'DESTINATION_UNREACHABLE',
  },
  {
    text: /(unable to (open|create|save)|create repository).{0,2000}permission denied/i,
    code: 'DESTINATION_DENIED',
  },
  {
    text: /unable to open (the )?config file|repository does not exist/i,
    code: 'REPOSITORY_MISSING',
  },
  {
    text: /all (target directories\/files|source directories\/files) do not exist|nothing to backup/i,
    code: 'SOURCE_UNREADABLE',
  },
  {
    text: /ciphertext verification failed|repository contains errors|hash does not match|invalid data returned|data seems to be missing|index is not complete|tree .{0,200} not found|id .{0,200} not found in (index|repository)/i,
    code: 'REPOSITORY_DAMAGED',
  },
];

const EXIT_CODES: ReadonlyMap<number, EngineCode> = new Map([
  [10, 'REPOSITORY_MISSING'],
  [11, 'REPOSITORY_LOCKED'],
  [12, 'WRONG_KEY'],
]);

/** A request that restic makes again by itself. */
const RETRY = /returned error, retrying after/i;
/** The lines of a Go stack below a message. */
const STACK = /^(\s|goroutine |github\.com\/|main\.|runtime\.|created by )/;

export interface FailureText {
  text: string;
  code: EngineCode | undefined;
}

/** What a line on the error output says about the failure of the whole run; `undefined` where it says nothing. */
export function failureText(line: string): FailureText | undefined {
  const message = parseMessage(line);
  if (message !== undefined) {
    return message.type === 'exit_error' ? { text: message.text, code: codeOfText(message.text) } : undefined;
  }
  if (line.trim() === '' || RETRY.test(line) || STACK.test(line)) return undefined;
  return { text: line, code: codeOfText(line) };
}

/** Why restic is about to make a request again; `undefined` for a line that does not say so. */
export function retriedText(line: string): FailureText | undefined {
  const at = line.search(RETRY);
  return at === -1 ? undefined : { text: line, code: codeOfText(line.slice(at)) };
}

export function codeOfText(text: string): EngineCode | undefined {
  return TEXTS.find((each) => each.text.test(text))?.code;
}

export const codeOfExit = (exitCode: number | null): EngineCode | undefined =>
  exitCode === null ? undefined : EXIT_CODES.get(exitCode);
