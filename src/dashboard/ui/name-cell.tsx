import { Anchor, Text } from '@mantine/core';
import { Link, type LinkProps } from '@tanstack/react-router';

interface NameCellProps extends Pick<LinkProps, 'to' | 'params'> {
  name: string;
  description: string | null;
}

/** The name of what a row of a table is about, as the way to its page, with its description below. */
export function NameCell({ name, description, ...way }: NameCellProps) {
  return (
    <>
      <Anchor
        inherit
        // Beside other text, a link has to be seen without its colour.
        {...(description === null ? {} : { underline: 'always' as const })}
        renderRoot={(props) => <Link {...props} {...way} />}
      >
        {name}
      </Anchor>
      {description !== null && (
        <Text size="xs" c="dimmed" lineClamp={1}>
          {description}
        </Text>
      )}
    </>
  );
}
