import type { Response } from 'express';
import { z } from 'zod';
import { FileAnswer } from './files/file-answer.ts';
import { KeptDocument } from './files/kept-document.ts';
import { StreamAnswer } from './files/stream-answer.ts';

/** An answer in place of JSON, for what follows links: a redirect, a document or a file. */
export type BrowserAnswer = Redirect | Document | KeptDocument | FileAnswer | StreamAnswer;

/** The response schema of a row that answers no JSON. */
export const NoBody = z.never();

export class Redirect {
  readonly url: string;
  readonly status: 302 | 303;

  /** Is sent as 303, so that the browser follows with a GET, whatever it sent here; 302 where a specification says so. */
  constructor(url: string, status: 302 | 303 = 303) {
    this.url = url;
    this.status = status;
  }

  send(response: Response): void {
    // The URL may carry a code, which must not reach the next site as the page that the browser came from.
    response.setHeader('Referrer-Policy', 'no-referrer');
    response.redirect(this.status, this.url);
  }
}

export class Document {
  readonly type: string;
  readonly text: string;

  readonly status: number;

  constructor(type: string, text: string, status = 200) {
    this.type = type;
    this.text = text;
    this.status = status;
  }

  send(response: Response): void {
    response.status(this.status).type(this.type).send(this.text);
  }
}

export const isBrowserAnswer = (answer: unknown): answer is BrowserAnswer =>
  [Redirect, Document, KeptDocument, FileAnswer, StreamAnswer].some((kind) => answer instanceof kind);
