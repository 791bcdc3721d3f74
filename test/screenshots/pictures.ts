import type { Page } from 'playwright-core';
import type { Story } from './story.ts';

/** Which pages are shown, and when each is ready to be shown. */
export interface Picture {
  name: string;
  path: string;
  isOf?: 'waiting room';
  isDark?: boolean;
  prepare: (page: Page) => Promise<unknown>;
}

const rowWith = (text: string | RegExp) => (page: Page) =>
  page.getByRole('row').filter({ hasText: text }).first().waitFor();
const textOf = (text: string | RegExp) => (page: Page) => page.getByText(text).first().waitFor();

/** Machines of all customers come first so. */
const DEVICES = '/devices?sort=os';

export function adminPictures({ deviceId, filterId, snapshotId, folder }: Story): Picture[] {
  const logs = `/devices/${deviceId}/logs?log=System&level=${asJson(['critical', 'error', 'warning'])}`;
  const shown = rowWith('has a bad block');
  return [
    { name: 'overview', path: '/', prepare: textOf('is almost full') },
    { name: 'devices', path: DEVICES, prepare: rowWith('-SRV-') },
    { name: 'devices-dark', path: DEVICES, isDark: true, prepare: rowWith('-SRV-') },
    { name: 'device', path: `/devices/${deviceId}`, prepare: textOf('Processor') },
    {
      name: 'device-history',
      path: `/devices/${deviceId}?tab=history`,
      prepare: (page) => page.getByRole('listitem').filter({ hasText: 'is almost full' }).first().waitFor(),
    },
    { name: 'event-log', path: logs, prepare: shown },
    { name: 'event-log-dark', path: logs, isDark: true, prepare: shown },
    { name: 'filter', path: `/filters/${filterId}`, prepare: textOf(/^\d+ devices$/) },
    { name: 'alerts', path: '/alerts', prepare: rowWith('is almost full') },
    { name: 'audit', path: `/audit?to=${asJson(yesterday())}`, prepare: rowWith('Technician') },
    {
      name: 'script-run',
      path: '/scripts/runs',
      async prepare(page) {
        const run = page.getByRole('row').filter({ hasText: 'Completed' }).getByRole('link').first();
        await run.click();
        await page.getByRole('row').nth(1).waitFor();
      },
    },
    {
      name: 'backup',
      path: `/backup/snapshots/${snapshotId}?path=${encodeURIComponent(folder)}`,
      prepare: rowWith('read-me.txt'),
    },
    {
      name: 'waiting-room',
      path: '/enrollment',
      isOf: 'waiting room',
      prepare: (page) => page.getByRole('log').getByRole('link').first().waitFor(),
    },
  ];
}

export const systemPictures: Picture[] = [
  {
    name: 'rollout',
    path: '/agents?tab=rollouts',
    async prepare(page) {
      await page
        .getByRole('row', { name: /1\.4\.0-rc\.2/ })
        .getByRole('button', { name: 'Details' })
        .click();
      // In the narrow dialog the waves are cards.
      await page.getByRole('dialog').getByText('1.4.0-rc.2').first().waitFor();
    },
  },
];

const asJson = (value: unknown) => encodeURIComponent(JSON.stringify(value));
const yesterday = () => new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
