import { Input, Stack, Text } from '@mantine/core';
import { ChipChoice } from '../../ui/index.ts';
import { SEVERITIES } from './policy-text.ts';

type Severity = (typeof SEVERITIES)[number];

/** Some severities; none is as good as all. */
export function SeveritiesField({
  label,
  description,
  value,
  onChange,
  error,
}: {
  label: string;
  description: string;
  value: readonly Severity[];
  onChange: (severities: Severity[]) => void;
  error: string | undefined;
}) {
  return (
    <Stack gap={4}>
      <Text size="sm" fw={500}>
        {label}
      </Text>
      <Text size="xs" c="dimmed">
        {description}
      </Text>
      <ChipChoice label={label} values={SEVERITIES} chosen={value} onChange={onChange} />
      {error !== undefined && <Input.Error>{error}</Input.Error>}
    </Stack>
  );
}
