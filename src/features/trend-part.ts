import type { Tx } from '../platform/db/transaction.ts';

/**
 * How a day comes to one figure although it is counted each hour.
 * - `last`: the last count, of what stands at a time
 * - `most`: the greatest count, of what comes and goes
 * - `during`: what has happened since the day began, which can be counted again when the day is over
 */
export type DayFigure = 'last' | 'most' | 'during';

export interface DaySpan {
  from: Date;
  /** Not part of the day. */
  to: Date;
}

export type Counted<Figure extends string> = { orgId: string } & Record<Figure, number>;

/** The figures that one feature counts of each organization, for the trends of a fleet (`fleet-trends`). */
export interface TrendPart<Figure extends string> {
  /** What a caller needs to see them, beside `devices:read`. */
  permission?: string;
  figures: Readonly<Record<Figure, DayFigure>>;
  /**
   * Counts across tenants in one statement. Organizations of which nothing is counted may be left out.
   * @param day  of figures that are counted since the day began; what stands is counted as of now
   */
  count: (tx: Tx, day: DaySpan) => Promise<Counted<Figure>[]>;
}

export const trendPart = <Figure extends string>(part: TrendPart<Figure>): TrendPart<Figure> => part;
