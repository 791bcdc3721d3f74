import { parentPort } from 'node:worker_threads';
import { entryFromBundleLine } from './bundle.ts';
import { type SealedEntry, segmentOf } from './chain.ts';
import { entryFromCopyRow } from './stored-chains.queries.ts';
import { linesIn, type VerifyResponse, type VerifyRequest } from './parallel-check.ts';

/** The worker thread of `VerifyWorkerPool`. */

const PARSE = { copy: entryFromCopyRow, bundle: entryFromBundleLine };

parentPort?.on('message', ({ format, bytes }: VerifyRequest) => {
  const entries: (SealedEntry | undefined)[] = [];
  for (const line of linesIn(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))) {
    entries.push(PARSE[format](line));
  }
  const response: VerifyResponse = { segment: segmentOf(entries) };
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- the rule is for browser windows; this is a worker thread
  parentPort?.postMessage(response);
});
