import type { z } from 'zod';
import { clock } from '../../clock.ts';
import { holds } from '../../platform/context.ts';
import { invalid, notFound } from '../../platform/errors.ts';
import { TimeZone } from '../../platform/http/fields.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import type { ReportContext, ReportPart, ReportSpan } from '../report-part.ts';
import { removedBefore, spanOfMonth } from './month.ts';
import { PART_NAMES, type PartName, PARTS } from './parts.ts';
import { readSubject } from './report.queries.ts';
import type { MonthReport, MonthReportQuery } from './report.schema.ts';

/** A month of an organization, as far as the caller may read it. */
export async function readMonthReport(
  ctx: ReportContext,
  { orgId, month }: MonthReportQuery,
): Promise<MonthReport> {
  await assertOrganizationAccess(ctx, orgId);
  const subject = await readSubject(ctx.tx, orgId);
  if (subject === undefined) throw notFound('Organization');
  const timezone = TimeZone.catch('UTC').parse(subject.timezone);
  const { from, to } = spanOfMonth(month, timezone);
  const now = clock.date();
  if (from > now) throw invalid('query.month', 'must not lie in the future');
  if (to <= subject.createdAt) throw invalid('query.month', 'must not lie before the organization was added');
  const isRunning = to > now;
  const span: ReportSpan = { orgId, from, to: isRunning ? now : to, isRunning };

  const hidden = PART_NAMES.filter((name) => !mayRead(ctx, PARTS[name]));
  const shown = PART_NAMES.filter((name) => !hidden.includes(name));
  return {
    organization: { id: orgId, name: subject.name },
    provider: { name: subject.provider, logoUrl: subject.logoUrl, accentColor: subject.accentColor },
    month,
    timezone,
    from,
    to,
    madeAt: now,
    isRunning,
    hidden,
    incomplete: await incompleteParts(ctx, span, shown),
    devices: await PARTS.devices.read(ctx, span),
    availability: await PARTS.availability.read(ctx, span),
    alerts: await ifAllowed(ctx, span, PARTS.alerts),
    backups: await ifAllowed(ctx, span, PARTS.backups),
    cloudBackups: await ifAllowed(ctx, span, PARTS.cloudBackups),
    software: await PARTS.software.read(ctx, span),
    upgrades: await PARTS.upgrades.read(ctx, span),
    commands: await PARTS.commands.read(ctx, span),
    people: await ifAllowed(ctx, span, PARTS.people),
  };
}

const mayRead = ({ caller }: ReportContext, { permission }: Pick<ReportPart, 'permission'>) =>
  permission === undefined || holds(caller.permissions, permission);

const ifAllowed = async <Shape extends z.ZodType>(
  ctx: ReportContext,
  span: ReportSpan,
  part: ReportPart<Shape>,
) => (mayRead(ctx, part) ? part.read(ctx, span) : null);

async function incompleteParts(ctx: ReportContext, span: ReportSpan, names: readonly PartName[]) {
  const incomplete: MonthReport['incomplete'] = [];
  for (const part of names) {
    const days = await PARTS[part].keptDays?.(ctx, span.orgId);
    const before = days === undefined ? undefined : removedBefore(span, days, clock.now());
    if (before !== undefined) incomplete.push({ part, before });
  }
  return incomplete;
}
