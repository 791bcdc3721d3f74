import type { z } from 'zod';

/** The variables that are set, before they are parsed. */
export type Values = Readonly<Record<string, string | undefined>>;

/** Some variables that belong together, and the part of the configuration that follows from them. */
export interface Area<Shape extends z.ZodRawShape, Settings> {
  /** By name, in the order of `.env.example`. */
  variables: Shape;
  /** Variables whose value may be in a file instead, which `<name>_FILE` names. */
  fromFile: readonly (keyof Shape & string)[];
  /**
   * What the variables require of each other. It only checks which are set, so that an invalid value elsewhere does not
   * hide it.
   */
  conflicts: (values: Values) => string[];
  settings: (env: z.output<z.ZodObject<Shape>>) => Settings;
}

export function defineArea<Shape extends z.ZodRawShape, Settings>({
  fromFile = [],
  conflicts = () => [],
  ...area
}: Pick<Area<Shape, Settings>, 'variables' | 'settings'> & Partial<Area<Shape, Settings>>): Area<
  Shape,
  Settings
> {
  return { fromFile, conflicts, ...area };
}
