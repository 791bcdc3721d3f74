import { existsSync } from 'node:fs';
import type { Context } from 'mocha';
import { skipWithout } from '../../../support/skip-without.ts';

const PROGRAMS = ['/usr/bin/wine', '/usr/bin/wineboot', '/usr/bin/x86_64-w64-mingw32-gcc'];

/** Skips a test where Wine or the compiler for its stand-ins is missing: `apt-get install wine wine64 gcc-mingw-w64-x86-64`. */
export const needsWine = (test: Context): void =>
  skipWithout(
    test,
    PROGRAMS.every((file) => existsSync(file)),
    'Wine, and mingw-w64',
  );
