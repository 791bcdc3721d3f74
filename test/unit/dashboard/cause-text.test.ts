import { expect } from 'chai';
import type { AlertCause } from '../../../src/dashboard/api/routes.ts';
import { causeDetail, causeText, nextStep } from '../../../src/dashboard/features/overview/cause-text.ts';

const devices = ['FRONT-1', 'FRONT-2', 'FRONT-3'].map((name) => ({ id: name, name }));
const cause: AlertCause = {
  orgId: 'o',
  siteId: 's',
  kind: 'device_offline',
  severity: 'high',
  count: 14,
  devices,
  deviceCount: 14,
  isTogether: true,
  title: 'The device is offline',
  firstAt: '2026-11-29T09:12:00.000Z',
  lastAt: '2026-11-29T09:14:00.000Z',
  alertIds: [],
};
const place = { organization: 'Bright Smile', site: 'Porto practice' };

describe('the words for a cause of alerts', () => {
  it('name the site of those that began together, and below it some of the devices', () => {
    expect(causeText(cause, place)).to.equal('Device offline: 14 devices of Porto practice');
    expect(causeDetail(cause, place)).to.equal('Bright Smile · FRONT-1, FRONT-2, FRONT-3 and 11 more');
  });

  it('name the organization where the devices are of several sites, and do so once', () => {
    const spread = { ...cause, siteId: null, isTogether: false, count: 3, deviceCount: 3 };
    const elsewhere = { organization: 'Bright Smile', site: undefined };
    expect(causeText(spread, elsewhere)).to.equal('Device offline: 3 devices of Bright Smile');
    expect(causeDetail(spread, elsewhere)).to.equal('FRONT-1, FRONT-2, FRONT-3');
  });

  it('are the title of a single alert, with its device', () => {
    const one = { ...cause, count: 1, deviceCount: 1, devices: devices.slice(0, 1), isTogether: false };
    expect(causeText(one, place)).to.equal('The device is offline');
    expect(causeDetail(one, place)).to.equal('Bright Smile · FRONT-1');
  });

  it('count alerts where there are no devices', () => {
    const some = { ...cause, kind: 'webhook_disabled', count: 2, deviceCount: 0, devices: [], title: null };
    expect(causeText(some, { organization: 'Bright Smile', site: undefined })).to.equal(
      'Webhook disabled: 2 alerts of Bright Smile',
    );
    expect(causeDetail(some, { organization: 'Bright Smile', site: undefined })).to.equal('');
  });

  it('come with a next step', () => {
    const step = (kind: string, deviceCount: number) => nextStep({ kind, deviceCount });
    expect(step('device_offline', 1)).to.equal('device');
    expect(step('device_offline', 2)).to.equal('devices');
    expect(step('disk_full', 2)).to.equal('capacity');
    expect(step('backup_failed', 2)).to.equal('backup');
    expect(step('webhook_disabled', 0)).to.equal('alerts');
  });
});
