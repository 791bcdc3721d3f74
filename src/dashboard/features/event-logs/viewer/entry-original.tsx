import { Code, Group, SegmentedControl, Text } from '@mantine/core';
import { useState } from 'react';
import { prettyJson, prettyXml } from '../model/pretty.ts';
import type { LogRow } from '../model/log-row.ts';

/** The record as the device keeps it. */
export function EntryOriginal({ row }: { row: LogRow }) {
  const [form, setForm] = useState('pretty');
  const raw = row.rawXml ?? row.raw;
  if (raw === undefined || raw === '') return null;
  const json = row.rawXml === undefined ? prettyJson(raw) : undefined;
  const pretty = row.rawXml === undefined ? json : prettyXml(row.rawXml);
  const kind = row.rawXml === undefined ? (json === undefined ? 'Lines' : 'JSON') : 'XML';
  return (
    <section aria-label="Original record">
      <Group justify="space-between" mb={4}>
        <Text size="sm" fw={600}>
          Original record ({kind})
        </Text>
        {pretty !== undefined && (
          <SegmentedControl
            size="xs"
            aria-label="Form of the original record"
            value={form}
            onChange={setForm}
            data={[
              { value: 'pretty', label: 'Pretty' },
              { value: 'raw', label: 'Raw' },
            ]}
          />
        )}
      </Group>
      <Code block tabIndex={0} fz={12} mah={320} style={{ overflow: 'auto', whiteSpace: 'pre-wrap' }}>
        {form === 'pretty' ? (pretty ?? raw) : raw}
      </Code>
    </section>
  );
}
