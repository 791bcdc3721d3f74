import { z } from 'zod';
import { cutLine } from './primitives.ts';

export const SourceName = cutLine(50);

/** A part of what was asked for that could not be read, such as one of several package managers. */
export const FailedSource = z.object({
  source: SourceName.describe('Such as `snap`, `interfaces` or `mariadb`.'),
  message: cutLine(300).describe('For people.'),
});
export type FailedSource = z.infer<typeof FailedSource>;
