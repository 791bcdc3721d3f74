import { EngineError } from '../engine-error.ts';

export const brokenFileSystem = (detail: string) => new EngineError('FILE_SYSTEM_DAMAGED', { detail });

/** @param why  a sentence for people */
export const unsupportedFileSystem = (why: string) =>
  new EngineError('FILE_SYSTEM_UNSUPPORTED', {
    message: `${why} Restore the disk to read its files.`,
  });
