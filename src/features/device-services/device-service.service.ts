import type { Context } from '../../platform/context.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { findDevice } from '../devices/index.ts';
import { lastReport, servicesOf } from './device-service.queries.ts';
import type { DeviceServicePage, DeviceServiceQuery } from './device-service.schema.ts';

export async function listServices(
  ctx: Context,
  deviceId: string,
  query: DeviceServiceQuery,
): Promise<DeviceServicePage> {
  const device = await findDevice(ctx, deviceId);
  const report = await lastReport(ctx, device);
  const { results, total } = await servicesOf(ctx, device, query).page(query.page - 1, query.limit);
  return {
    ...toPage(query, { results: results.map(shown), total }),
    manager: report?.manager ?? null,
    reportedAt: report?.reportedAt ?? null,
    unlisted: report?.unlisted ?? 0,
  };
}

const shown = ({
  name,
  displayName,
  state,
  startMode,
  since,
}: Awaited<ReturnType<typeof servicesOf>>[0]) => ({
  name,
  displayName: displayName === '' ? null : displayName,
  state,
  startMode,
  since,
});
