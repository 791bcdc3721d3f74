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
const DEVICES_AT_ONCE = 500;

/** The text in pieces. The samples of a metric stand together, as the format demands. */
export function* openMetricsText(devices: readonly ScrapedDevice[]): Generator<string> {
  yield family(PREFIX, 'info', 'What a device is.');
  yield* lines(devices, (device) => {
    const { osType, agentVersion, siteId } = device;
    const labels = { ...namesOf(device), site_id: siteId, os: osType, agent_version: agentVersion };
    return sample(`${PREFIX}_info`, labels, 1);
  });
  yield family(`${PREFIX}_connected`, 'gauge', 'Whether a device is connected.');
  yield* lines(devices, (device) =>
    sample(`${PREFIX}_connected`, namesOf(device), device.isConnected ? 1 : 0),
  );
  for (const metric of SCRAPED_METRICS) {
    const gauge = GAUGES[metric];
    if (gauge === undefined) continue;
    const name = `${PREFIX}_${gauge.name}`;
    yield family(name, 'gauge', gauge.help);
    yield* lines(devices, (device) =>
      device.figures
        .filter((figure) => figure.metric === metric)
        .map(({ label, value }) =>
          sample(
            name,
            { ...namesOf(device), ...(gauge.label === undefined ? {} : { [gauge.label]: label }) },
            value,
          ),
        )
        .join(''),
    );
  }
  yield '# EOF\n';
}

const family = (name: string, type: 'gauge' | 'info', help: string) =>
  `# TYPE ${name} ${type}\n# HELP ${name} ${help}\n`;

const namesOf = ({ id, name, organization }: ScrapedDevice) => ({
  device_id: id,
  device: name,
  organization,
});

function* lines(devices: readonly ScrapedDevice[], of: (device: ScrapedDevice) => string): Generator<string> {
  for (let from = 0; from < devices.length; from += DEVICES_AT_ONCE) {
    const text = devices
      .slice(from, from + DEVICES_AT_ONCE)
      .map(of)
      .join('');
    if (text !== '') yield text;
  }
}

const sample = (name: string, labels: Readonly<Record<string, string>>, value: number) =>
  `${name}{${Object.entries(labels)
    .map(([label, text]) => `${label}="${escaped(text)}"`)
    .join(',')}} ${value}\n`;

const escaped = (text: string) =>
  text.replaceAll('\\', String.raw`\\`).replaceAll('"', String.raw`\"`).replaceAll('\n', String.raw`\n`);
