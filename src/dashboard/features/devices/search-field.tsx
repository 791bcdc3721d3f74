import { TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconSearch } from '@tabler/icons-react';
import { useState } from 'react';

const PAUSE_MS = 300;

/** Searches when the person pauses. The value may also change from outside, as by going back. */
export function SearchField({
  label,
  value,
  onChange,
  width = 240,
}: {
  label: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
  width?: number;
}) {
  const [text, setText] = useState(value ?? '');
  const [seen, setSeen] = useState(value);
  const [isFocused, setFocused] = useState(false);
  if (seen !== value) {
    setSeen(value);
    // Who types is ahead of the address.
    if (!isFocused) setText(value ?? '');
  }
  const search = useDebouncedCallback((next: string) => onChange(next.trim() || undefined), PAUSE_MS);
  return (
    <TextInput
      w={width}
      placeholder={label}
      aria-label={label}
      leftSection={<IconSearch size={14} aria-hidden />}
      value={text}
      onFocus={() => setFocused(true)}
      onBlur={() => setFocused(false)}
      onChange={(event) => {
        setText(event.currentTarget.value);
        search(event.currentTarget.value);
      }}
    />
  );
}
