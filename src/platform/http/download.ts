import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Response } from 'express';
import type { DetachedContext } from '../context.ts';

/** Opens short transactions of the caller, one for each portion: none is open while the client takes its time. */
export type Within = DetachedContext['withTenant'];

/** An answer that is made while it is sent, for what is too much to hold at once. */
export class Download {
  readonly type: string;
  /** Given where browsers are to keep it as a file. */
  readonly fileName: string | undefined;
  readonly pieces: (within: Within) => AsyncIterable<string>;
  /** What the audit entry of it says. */
  readonly noted: Record<string, unknown>;

  constructor({ type, fileName, pieces, noted }: Pick<Download, 'type' | 'fileName' | 'pieces' | 'noted'>) {
    this.type = type;
    this.fileName = fileName;
    this.pieces = pieces;
    this.noted = noted;
  }
}

/** A download that has what it reads with. */
export class OpenDownload {
  readonly #download: Download;
  readonly #within: Within;

  constructor(download: Download, within: Within) {
    this.#download = download;
    this.#within = within;
  }

  /** Should it fail half-way, the connection is cut: nobody takes a part for the whole. */
  async send(response: Response): Promise<void> {
    const { type, fileName, pieces } = this.#download;
    response.type(type);
    if (fileName !== undefined) {
      response.setHeader('Content-Disposition', `attachment; filename="${fileName}"`);
    }
    try {
      await pipeline(Readable.from(pieces(this.#within)), response);
    } catch (error) {
      if (!hasLeft(error)) throw error;
    }
  }
}

/** The client did not wait for the end. */
const hasLeft = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE';
