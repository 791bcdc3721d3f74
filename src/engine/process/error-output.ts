import { clock } from '../../clock.ts';
import { pathText } from '../../protocol/index.ts';
import type { EngineCode } from '../engine-error.ts';
import { parseMessage } from './messages.ts';

/**
 * Longer than a line about one file: restic writes its path up to three times, each of 4,096 bytes that JSON escapes
 * with six characters.
 */
const LINE_MAX = 128 * 1024;
const KEPT_LINES = 20;
const KEPT_LENGTH = 4000;

export type OnErrorLine = (line: string, isCut: boolean) => boolean;

const BRACE = 0x7b;
/** JSON is UTF-8. The rest of restic's output contains file names as raw bytes, on systems on which names are bytes. */
const textOf = (line: Buffer): string =>
  line[0] === BRACE || process.platform === 'win32' ? line.toString('utf8') : pathText(line);

/** Reads restic's error output: every line is offered, the reason of a failure is kept, and memory is bounded. */
export class ErrorOutput {
  readonly #lines = new LineSplitter(LINE_MAX, textOf);
  readonly #onLine: OnErrorLine | undefined;
  readonly #onHopeless: () => void;
  readonly #retries: RetryWatch | undefined;
  readonly #kept: string[] = [];
  #code: EngineCode | undefined;

  /**
   * @param onLine  returns whether it has handled the line, which then says nothing about the whole run
   * @param onHopeless  called when restic is about to repeat a request that cannot succeed
   * @param retries  knows how long restic has retried without progress
   */
  constructor(onLine: OnErrorLine | undefined, onHopeless: () => void = () => {}, retries?: RetryWatch) {
    this.#onLine = onLine;
    this.#onHopeless = onHopeless;
    this.#retries = retries;
  }

  push(bytes: Uint8Array): void {
    for (const line of this.#lines.push(bytes)) this.#read(line);
  }

  end(): void {
    for (const line of this.#lines.end()) this.#read(line);
  }

  /** The first recognized text decides; restic repeats itself in other words. */
  codeFor(exitCode: number | null): EngineCode {
    return codeOfExit(exitCode) ?? this.#code ?? 'ENGINE_FAILED';
  }

  get text(): string {
    return this.#kept.join('\n');
  }

  #read({ text: line, isCut }: Line): void {
    if (this.#onLine?.(line, isCut) === true) return;
    const retried = retriedText(line);
    if (retried === undefined) this.#keep(failureText(line));
    else if (this.#isInVain(retried)) {
      this.#keep({ ...retried, code: retried.code ?? 'DESTINATION_UNREACHABLE' });
      this.#onHopeless();
    }
  }

  /** restic would send a full destination the same data for most of a minute, and retry an unreachable one for hours. */
  #isInVain({ code }: FailureText): boolean {
    return code === 'DESTINATION_FULL' || this.#retries?.retried(clock.monotonic()) === true;
  }

  #keep(failure: FailureText | undefined): void {
    if (failure === undefined) return;
    this.#code ??= failure.code;
    if (this.#kept.length < KEPT_LINES) this.#kept.push(failure.text.slice(0, KEPT_LENGTH));
  }
}

interface Line {
  text: string;
  /** The rest of the line was too long, and was dropped. */
  isCut: boolean;
}

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** Splits bytes into lines. What exceeds `maxBytes` of a line is dropped, so memory stays bounded. */
export class LineSplitter {
  readonly #maxBytes: number;
  readonly #decode: (line: Buffer) => string;
  #parts: Buffer[] = [];
  #length = 0;
  #isCut = false;

  constructor(maxBytes: number, decode: (line: Buffer) => string = (line) => line.toString('utf8')) {
    this.#maxBytes = maxBytes;
    this.#decode = decode;
  }

  push(bytes: Uint8Array): Line[] {
    const given = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const lines: Line[] = [];
    let from = 0;
    for (let end = given.indexOf(LINE_FEED); end !== -1; end = given.indexOf(LINE_FEED, from)) {
      this.#add(given.subarray(from, end));
      lines.push(this.#take());
      from = end + 1;
    }
    this.#add(given.subarray(from));
    return lines;
  }

  /** The last line, if no line break ends it. */
  end(): Line[] {
    return this.#length === 0 ? [] : [this.#take()];
  }

  #add(bytes: Buffer): void {
    const kept = bytes.subarray(0, this.#maxBytes - this.#length);
    if (kept.length < bytes.length) this.#isCut = true;
    if (kept.length === 0) return;
    // Copied, so that a short line does not keep a large chunk of the output in memory.
    this.#parts.push(Buffer.from(kept));
    this.#length += kept.length;
  }

  #take(): Line {
    const bytes = Buffer.concat(this.#parts);
    const line = { text: this.#decode(withoutReturn(bytes)), isCut: this.#isCut };
    this.#parts = [];
    this.#length = 0;
    this.#isCut = false;
    return line;
  }
}

const withoutReturn = (line: Buffer) => (line.at(-1) === CARRIAGE_RETURN ? line.subarray(0, -1) : line);

/** Fewer failed requests may have failed at the same moment, and a slow connection reports them late. */
const RETRIES_MIN = 10;

/**
 * Detects that restic retries an unreachable destination. restic gives up each request after some time, and then
 * begins the next one: it would continue like this for as long as it has files to read.
 */
export class RetryWatch {
  readonly #giveUpAfterMs: number;
  #since: number | undefined;
  #count = 0;

  constructor(giveUpAfterMs: number) {
    this.#giveUpAfterMs = giveUpAfterMs;
  }

  /** There was progress, so the destination accepts data. */
  progressed(): void {
    this.#since = undefined;
    this.#count = 0;
  }

  /** Called when restic repeats a request. Returns whether it has retried for too long without progress. */
  retried(now: number): boolean {
    this.#since ??= now;
    this.#count += 1;
    return this.#count >= RETRIES_MIN && now - this.#since >= this.#giveUpAfterMs;
  }
}

/**
 * The meaning of restic's messages and exit codes. The messages of 0.14 were observed, later ones were read in the
 * source.
 */

/** In this order: if a server does not answer, restic also prints that it cannot open the configuration. */
const TEXTS: readonly { text: RegExp; code: EngineCode }[] = [
  // Its `E_ACCESSDENIED` is not about the destination.
  // The library is missing in Windows PE and Nano Server, and lacks its functions in Wine.
  { text: /\bVSS error: |\bVssApi\.dll\b/, code: 'SHADOW_COPY_DENIED' },
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

/** A request that restic itself repeats. */
const RETRY = /returned error, retrying after/i;
/** The lines of a Go stack below a message. */
const STACK = /^(\s|goroutine |github\.com\/|main\.|runtime\.|created by )/;

interface FailureText {
  text: string;
  code: EngineCode | undefined;
}

/** The failure of the whole run that a line of the error output shows; `undefined` if it shows none. */
export function failureText(line: string): FailureText | undefined {
  const message = parseMessage(line);
  if (message !== undefined) {
    return message.type === 'exit_error' ? { text: message.text, code: codeOfText(message.text) } : undefined;
  }
  if (line.trim() === '' || RETRY.test(line) || STACK.test(line)) return undefined;
  return { text: line, code: codeOfText(line) };
}

/** Why restic repeats a request; `undefined` for other lines. */
function retriedText(line: string): FailureText | undefined {
  const at = line.search(RETRY);
  return at === -1 ? undefined : { text: line, code: codeOfText(line.slice(at)) };
}

function codeOfText(text: string): EngineCode | undefined {
  return TEXTS.find((each) => each.text.test(text))?.code;
}

const codeOfExit = (exitCode: number | null): EngineCode | undefined =>
  exitCode === null ? undefined : EXIT_CODES.get(exitCode);
