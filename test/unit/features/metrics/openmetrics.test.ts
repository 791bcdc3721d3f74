import { expect } from 'chai';
import fc from 'fast-check';
import { openMetricsText, type ScrapedDevice } from '../../../../src/features/metrics/openmetrics.ts';

const device = (given: Partial<ScrapedDevice> = {}): ScrapedDevice => ({
  id: '0198f3a0-1111-7000-8000-00000000000a',
  name: 'FRONT-1',
  organization: 'Bright Smile',
  siteId: 's',
  osType: 'linux',
  agentVersion: '1.0.0',
  isConnected: true,
  figures: [],
  ...given,
});
const textOf = (devices: readonly ScrapedDevice[]) => [...openMetricsText(devices)].join('');

interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

/** Reads the text by the grammar of OpenMetrics 1.0, and throws where it does not follow it. */
function parse(text: string): Sample[] {
  const samples: Sample[] = [];
  const families = new Set<string>();
  let family = '';
  expect(text.endsWith('# EOF\n')).to.equal(true);
  for (const line of text.slice(0, -'# EOF\n'.length).split('\n').slice(0, -1)) {
    const [, name = '', type] = /^# TYPE (\S+) (gauge|info)$/.exec(line) ?? [];
    if (type !== undefined) {
      expect(families.has(name), `${name} is one family`).to.equal(false);
      families.add(name);
      family = type === 'info' ? `${name}_info` : name;
      continue;
    }
    if (/^# HELP \S+ \S/.test(line)) continue;
    const [, metric = '', inner = '', value = ''] =
      /^([a-z_]+)\{((?:[a-z_]+="(?:[^"\\]|\\["\\n])*",?)*)\} (\S+)$/s.exec(line) ?? [];
    expect(metric, line).to.equal(family);
    const labels = [...inner.matchAll(/([a-z_]+)="((?:[^"\\]|\\["\\n])*)"/gs)].map(
      ([, label = '', raw = '']) =>
        [label, raw.replaceAll(/\\(["\\n])/g, (_all, sign: string) => (sign === 'n' ? '\n' : sign))] as const,
    );
    samples.push({ name: metric, labels: Object.fromEntries(labels), value: Number(value) });
  }
  return samples;
}

describe('figures as OpenMetrics', () => {
  it('name the device, and the volume of its volumes', () => {
    const figures = [
      { metric: 'volumeUsedBytes', label: 'C:\\', value: 5 },
      { metric: 'cpuPercent', label: '', value: 12.5 },
      { metric: 'processCpuPercent', label: 'chrome', value: 90 },
    ] as const;
    const names = { device_id: device().id, device: 'FRONT-1', organization: 'Bright Smile' };
    expect(parse(textOf([device({ figures })]))).to.deep.equal([
      {
        name: 'muster_device_info',
        labels: { ...names, site_id: 's', os: 'linux', agent_version: '1.0.0' },
        value: 1,
      },
      { name: 'muster_device_connected', labels: names, value: 1 },
      { name: 'muster_device_cpu_percent', labels: names, value: 12.5 },
      { name: 'muster_device_volume_used_bytes', labels: { ...names, volume: 'C:\\' }, value: 5 },
    ]);
  });

  it('follow the format for no device, and for many, whose samples of a metric stand together', () => {
    expect(parse(textOf([]))).to.deep.equal([]);
    const figures = [{ metric: 'load', label: '', value: 1 }] as const;
    const many = Array.from({ length: 1201 }, (_, number) => device({ name: `D${number}`, figures }));
    expect(parse(textOf(many))).to.have.length(1201 * 3);
    expect([...openMetricsText(many)].length).to.be.greaterThan(3);
  });

  it('keep every name as it is, whatever signs it has', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }),
        fc.string({ unit: fc.constantFrom('"', '\\', '\n', 'n', '}', '{', ',', '=', '#', ' ') }),
        (name, volume) => {
          const figures = [{ metric: 'volumeTotalBytes', label: volume, value: 2 ** 50 }] as const;
          const found = parse(textOf([device({ name, figures })]));
          expect(found[1]?.labels['device']).to.equal(name);
          expect(found[2]).to.deep.include({ value: 2 ** 50 });
          expect(found[2]?.labels['volume']).to.equal(volume);
        },
      ),
      { numRuns: 300 },
    );
  });
});
