import { Input } from '@mantine/core';
import { ChipChoice } from '../../ui/index.ts';
import { SEVERITIES, type Severity } from '../alert-words/index.ts';

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
    <Input.Wrapper label={label} description={description} error={error} labelElement="div">
      <ChipChoice label={label} values={SEVERITIES} chosen={value} onChange={onChange} />
    </Input.Wrapper>
  );
}
