import { z } from 'zod';
import type { Context } from '../platform/context.ts';

/** The organization and the time that a report is about. The end is not part of it. */
export interface ReportSpan {
  orgId: string;
  from: Date;
  to: Date;
  /** The time goes on: its end is now. */
  isRunning: boolean;
}

/** What a report is read with: by the rights of a caller, who need not have sent a request. */
export type ReportContext = Pick<Context, 'tx' | 'caller'>;

/** One part of the monthly report of an organization, which the feature that owns its tables gives. */
export interface ReportPart<Shape extends z.ZodType = z.ZodType> {
  /** What the caller needs beside `devices:read`. */
  permission?: string;
  shape: Shape;
  /** Reads the figures in sets: how many statements it takes does not depend on how much there is. */
  read: (ctx: ReportContext, span: ReportSpan) => Promise<z.input<Shape>>;
  /** For how many days the rows that are counted are kept. Absent: they are not removed by their age. */
  keptDays?: (ctx: ReportContext, orgId: string) => Promise<number>;
}

/** Declares a part, so that its figures are checked against its shape. */
export const reportPart = <Shape extends z.ZodType>(part: ReportPart<Shape>): ReportPart<Shape> => part;

const count = z.number().int();
/** Long work of one kind, by how it has ended. */
export const OutcomeCounts = z.object({
  completed: count,
  partial: count,
  failed: count,
  cancelled: count,
  open: count,
});

/** @param done  the states that count as completed */
export function countOutcomes(
  byStatus: Readonly<Record<string, number>>,
  done: readonly string[] = ['completed'],
): z.infer<typeof OutcomeCounts> {
  const { partial = 0, failed = 0, cancelled = 0 } = byStatus;
  const total = Object.values(byStatus).reduce((sum, n) => sum + n, 0);
  const completed = done.reduce((sum, status) => sum + (byStatus[status] ?? 0), 0);
  return { completed, partial, failed, cancelled, open: total - completed - partial - failed - cancelled };
}

/** SQL: the number of rows by their status, as an object. @param rows  a query with a column `status` */
export const countedByStatus = (rows: string): string =>
  `(select coalesce(jsonb_object_agg(status, n), '{}') from (
    select status, count(*)::integer as n from (${rows}) w group by status) s)`;

/** The most rows of each small table of a report. */
export const REPORT_ROWS_MAX = 10;
/** The most devices that a report names in one place. */
export const REPORT_DEVICES_MAX = 5;
