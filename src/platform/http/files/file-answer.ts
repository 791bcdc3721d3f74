import path from 'node:path';
import type { Response } from 'express';
import { AppError } from '../../errors.ts';
import { isKnownTo } from './etag.ts';

/** A client that takes nothing for so long is gone, and the file that is open for it is closed. */
const PATIENCE_MS = 60_000;

/**
 * A file of this machine, with its hash as ETag: `Range`, `If-None-Match` and `If-Range` are answered by that, so that a
 * broken download is resumed and never mixed with another file.
 */
export class FileAnswer {
  readonly path: string;
  readonly sha256: string;
  /** As the client stores it: letters, digits, dots and dashes. */
  readonly fileName: string;

  constructor({ path: file, sha256, fileName }: Pick<FileAnswer, 'path' | 'sha256' | 'fileName'>) {
    this.path = file;
    this.sha256 = sha256;
    this.fileName = fileName;
  }

  /** Should it fail half-way, the connection is cut: nobody takes a part for the whole. */
  async send(response: Response): Promise<void> {
    const headers = {
      ETag: `"${this.sha256}"`,
      // May be stored, and is asked for again by its ETag.
      'Cache-Control': 'no-cache',
      'Content-Type': 'application/octet-stream',
      'Content-Disposition': `attachment; filename="${this.fileName}"`,
    };
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    if (isKnownTo(response.req, this.sha256)) {
      response.removeHeader('Content-Type');
      response.status(304).end();
      return;
    }
    response.setTimeout(PATIENCE_MS, () => response.destroy());
    const failure = await this.#transfer(response);
    if (failure === undefined || failure.code === 'ECONNABORTED') return;
    if (!response.headersSent) for (const name of Object.keys(headers)) response.removeHeader(name);
    throw asAppError(failure);
  }

  /** By Express, which answers conditions and ranges. */
  #transfer(response: Response): Promise<SendFailure | undefined> {
    const options = { root: path.dirname(this.path), dotfiles: 'allow', lastModified: false } as const;
    return new Promise((resolve) => {
      response.sendFile(
        path.basename(this.path),
        { ...options, cacheControl: false },
        (failure?: SendFailure) => resolve(failure),
      );
    });
  }
}

type SendFailure = NodeJS.ErrnoException & { status?: number };

/** Without the path of the file, which is nobody's business. */
function asAppError(failure: SendFailure): Error {
  switch (failure.status) {
    case 404:
      return new AppError('unavailable', 'The file is missing on this server.', { cause: failure });
    case 412:
      return new AppError('precondition_failed', 'The file is not the one that the request names.');
    case 416:
      return new AppError('range_not_satisfiable', 'The file has no bytes in the range that was asked for.');
    default:
      return failure;
  }
}
