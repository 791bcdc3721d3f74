import { setImmediate as othersTurn } from 'node:timers/promises';
import type { Context } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import { Download } from '../../platform/http/file-answer.ts';
import { conditionsOf } from '../filters/index.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { readableBlock } from './block.ts';
import { type DeviceToScrape, devicesToScrape } from './metric.queries.ts';
import type { ScrapeQuery } from './metric.schema.ts';
import { DEVICES_AT_ONCE, rounded } from './metric.service.ts';
import { openMetricsText, SCRAPED_METRICS, type ScrapedDevice } from './openmetrics.ts';

/** So many devices are answered at a time: 22 MiB with two volumes each, and 0.8 MiB compressed. */
const SCRAPED_MAX = 10_000;

/**
 * The newest figures of devices as OpenMetrics. Throws `conflict` if there are too many devices for one answer: the
 * rest must not be missing without a word.
 */
export async function scrapeMetrics(ctx: Context, { orgId, filterId }: ScrapeQuery): Promise<Download> {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const conditions = filterId === undefined ? undefined : await conditionsOf(ctx, filterId);
  const devices = await devicesToScrape(ctx, { orgId, conditions, atMost: SCRAPED_MAX + 1 });
  if (devices.length > SCRAPED_MAX) {
    throw new AppError(
      'conflict',
      `There are more than ${SCRAPED_MAX} devices. Scrape them by organization or by filter.`,
    );
  }
  return new Download({
    type: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
    fileName: undefined,
    pieces: () => scrapedText(devices),
    noted: {},
  });
}

async function* scrapedText(devices: readonly DeviceToScrape[]): AsyncGenerator<string> {
  const wanted = new Set(SCRAPED_METRICS);
  const scraped: ScrapedDevice[] = [];
  for (const [at, { block, ...device }] of devices.entries()) {
    if (at % DEVICES_AT_ONCE === DEVICES_AT_ONCE - 1) await othersTurn();
    const found = block === null ? undefined : readableBlock(block, (metric) => wanted.has(metric));
    const newest = found?.slots.at(-1);
    const figures = (found?.series ?? []).flatMap(({ metric, label, slots, avg }) => {
      const value = avg.at(-1);
      // A volume that the newest sample does not have is gone.
      return value === undefined || slots.at(-1) !== newest ? [] : [{ metric, label, value: rounded(value) }];
    });
    scraped.push({ ...device, figures });
  }
  for (const piece of openMetricsText(scraped)) {
    yield piece;
    await othersTurn();
  }
}
