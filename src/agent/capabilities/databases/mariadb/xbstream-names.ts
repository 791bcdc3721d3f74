import { databaseError } from '../database-error.ts';

/**
 * Passes a stream of mariadb-backup on, and refuses it before a part is passed on whose name leads out of the folder:
 * mbstream itself would follow it.
 */

const MAGIC = Buffer.from('XBSTCK01');
const NAME_MAX = 4096;
/** The mark of the first byte after the flags of a part that is the end of a file. */
const END = 'E'.charCodeAt(0);

export async function* checkedNames(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  const reader = new Parts(source);
  for (;;) {
    // Magic, flags, kind, length of the name.
    const head = await reader.take(14);
    if (head === undefined) return;
    const length = head.readUInt32LE(10);
    if (!head.subarray(0, 8).equals(MAGIC) || length === 0 || length > NAME_MAX) {
      throw damaged('it is no stream of mariadb-backup');
    }
    const name = await reader.must(length);
    const names = name.toString('utf8').replace(/^\.\//, '').split('/');
    if (names.some((each) => each === '' || each === '..' || each === '.') || name.includes(0)) {
      throw damaged(`${JSON.stringify(name.toString('utf8').slice(0, 200))} is no name below the folder`);
    }
    yield head;
    yield name;
    if (head[9] === END) continue;
    // Length of the content, its place in the file, and its checksum.
    const body = await reader.must(20);
    yield body;
    let left = body.readBigUInt64LE(0);
    while (left > 0n) {
      const part = await reader.some(left);
      left -= BigInt(part.length);
      yield part;
    }
  }
}

const damaged = (why: string) => databaseError('BACKUP_DAMAGED', `The backup cannot be unpacked: ${why}.`);

class Parts {
  readonly #source: AsyncIterator<Uint8Array>;
  #held: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  async #fill(): Promise<boolean> {
    while (this.#held.length === 0) {
      const next = await this.#source.next();
      if (next.done === true) return false;
      this.#held = Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength);
    }
    return true;
  }

  /** `undefined` at the end of the stream. */
  async take(count: number): Promise<Buffer | undefined> {
    return (await this.#fill()) ? this.must(count) : undefined;
  }

  async must(count: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let left = count; left > 0; ) {
      const part = await this.some(BigInt(left));
      left -= part.length;
      parts.push(part);
    }
    return Buffer.concat(parts);
  }

  async some(max: bigint): Promise<Buffer> {
    if (!(await this.#fill())) throw damaged('it ends too early');
    const part = this.#held.subarray(0, max > BigInt(this.#held.length) ? this.#held.length : Number(max));
    this.#held = this.#held.subarray(part.length);
    return part;
  }
}
