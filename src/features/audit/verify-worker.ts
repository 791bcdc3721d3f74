import { parentPort } from 'node:worker_threads';
import { entryFromBundleLine } from '../chain/bundle.ts';
import type { SealedEntry } from '../chain/chain.ts';
import { entryFromCopyRow } from '../storage/copy-row.ts';
import { segmentOf } from '../chain/entry-segment.ts';
import { linesIn } from './line-chunk.ts';
import type { VerifyResponse, VerifyRequest } from './verify-worker-pool.ts';

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
