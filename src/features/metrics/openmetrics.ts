import type { MetricName } from './metric.ts';

/** The newest figures of devices in the text format of OpenMetrics 1.0, which Prometheus and its relatives read. Pure. */

export interface ScrapedDevice {
  id: string;
  name: string;
  organization: string;
  siteId: string;
  osType: string;
  agentVersion: string;
  isConnected: boolean;
  /** The newest of each; none if the device has not reported lately. */
  figures: readonly { metric: MetricName; label: string; value: number }[];
}

/** The names of the figures; those of processes are left out, because their names change all the time. */
const GAUGES: Readonly<Partial<Record<MetricName, { name: string; help: string; label?: string }>>> = {
  cpuPercent: { name: 'cpu_percent', help: 'Processor use.' },
  ramPercent: { name: 'memory_percent', help: 'Used memory.' },
  swapPercent: { name: 'swap_percent', help: 'Used swap space.' },
  load: { name: 'load', help: 'Processes that run or wait, on average of a minute.' },
  uptimeSeconds: { name: 'uptime_seconds', help: 'Time since the system was started.' },
  networkReceivedPerSecond: {
    name: 'network_received_bytes_per_second',
    help: 'Received over all network interfaces.',
  },
  networkSentPerSecond: { name: 'network_sent_bytes_per_second', help: 'Sent over all network interfaces.' },
  diskReadPerSecond: { name: 'disk_read_bytes_per_second', help: 'Read from all disks.' },
  diskWrittenPerSecond: { name: 'disk_written_bytes_per_second', help: 'Written to all disks.' },
  volumeUsedBytes: { name: 'volume_used_bytes', help: 'Used space of a volume.', label: 'volume' },
  volumeTotalBytes: { name: 'volume_total_bytes', help: 'Size of a volume.', label: 'volume' },
};

export const SCRAPED_METRICS = Object.keys(GAUGES) as MetricName[];

const PREFIX = 'muster_device';
/** So many devices are written at a time, so that others have their turn in between. */
const DEVICES_AT_ONCE = 200;

/** The text in pieces. The samples of a metric stand together, as the format demands. */
export function* openMetricsText(devices: readonly ScrapedDevice[]): Generator<string> {
  // Made with the first sample of a device, so that they are not all made at once.
  const made = new Map<ScrapedDevice, string>();
  const labelsFor = (device: ScrapedDevice): string => {
    const labels = made.get(device) ?? labelsOf(device);
    made.set(device, labels);
    return labels;
  };
  yield family(PREFIX, 'info', 'What a device is.');
  yield* lines(devices, (device) => {
    const { siteId, osType, agentVersion } = device;
    const more = `${label('site_id', siteId)},${label('os', osType)},${label('agent_version', agentVersion)}`;
    return `${PREFIX}_info{${labelsFor(device)},${more}} 1\n`;
  });
  yield family(`${PREFIX}_connected`, 'gauge', 'Whether a device is connected.');
  yield* lines(
    devices,
    (device) => `${PREFIX}_connected{${labelsFor(device)}} ${device.isConnected ? 1 : 0}\n`,
  );
  for (const metric of SCRAPED_METRICS) {
    const gauge = GAUGES[metric];
    if (gauge === undefined) continue;
    const name = `${PREFIX}_${gauge.name}`;
    yield family(name, 'gauge', gauge.help);
    yield* lines(devices, (device) =>
      device.figures
        .filter((figure) => figure.metric === metric)
        .map(({ label: of, value }) => {
          const more = gauge.label === undefined ? '' : `,${label(gauge.label, of)}`;
          return `${name}{${labelsFor(device)}${more}} ${value}\n`;
        })
        .join(''),
    );
  }
  yield '# EOF\n';
}

const family = (name: string, type: 'gauge' | 'info', help: string) =>
  `# TYPE ${name} ${type}\n# HELP ${name} ${help}\n`;

/** Those that all samples of a device have. */
const labelsOf = ({ id, name, organization }: ScrapedDevice) =>
  `${label('device_id', id)},${label('device', name)},${label('organization', organization)}`;

const label = (name: string, text: string) => `${name}="${escaped(text)}"`;

const escaped = (text: string) =>
  text.replaceAll('\\', String.raw`\\`).replaceAll('"', String.raw`\"`).replaceAll('\n', String.raw`\n`);

function* lines(devices: readonly ScrapedDevice[], of: (device: ScrapedDevice) => string): Generator<string> {
  for (let from = 0; from < devices.length; from += DEVICES_AT_ONCE) {
    const text = devices
      .slice(from, from + DEVICES_AT_ONCE)
      .map(of)
      .join('');
    if (text !== '') yield text;
  }
}
