import { Anchor, Button, type AnchorProps, type ButtonProps } from '@mantine/core';
import { createLink } from '@tanstack/react-router';
import type { ComponentPropsWithRef } from 'react';

/** Links to pages of the dashboard, which know the addresses and their parameters. */

type Attributes<Given> = Omit<ComponentPropsWithRef<'a'>, keyof Given>;

/** A link in a text. Beside other text, `underline="always"` shows it without its colour. */
export const TextLink = createLink((props: AnchorProps & Attributes<AnchorProps>) => <Anchor {...props} />);

/** A link that looks like a button, for what a person does next. */
export const ButtonLink = createLink((props: ButtonProps & Attributes<ButtonProps>) => (
  <Button component="a" {...props} />
));
