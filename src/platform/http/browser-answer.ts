import type { Response } from 'express';
import { z } from 'zod';

/** An answer for a browser that came here by a link or a form: a redirect or a document, in place of JSON. */
export type BrowserAnswer = Redirect | Document;

/** The response schema of a row that only redirects. */
export const NoBody = z.never();

export class Redirect {
  readonly url: string;

  /** Is sent as 303, so that the browser follows with a GET, whatever it sent here. */
  constructor(url: string) {
    this.url = url;
  }

  send(response: Response): void {
    // The URL may carry a code, which must not reach the next site as the page that the browser came from.
    response.setHeader('Referrer-Policy', 'no-referrer');
    response.redirect(303, this.url);
  }
}

export class Document {
  readonly type: string;
  readonly text: string;

  constructor(type: string, text: string) {
    this.type = type;
    this.text = text;
  }

  send(response: Response): void {
    response.type(this.type).send(this.text);
  }
}

export const isBrowserAnswer = (answer: unknown): answer is BrowserAnswer =>
  answer instanceof Redirect || answer instanceof Document;
