// Style sheets are bundled by esbuild; TypeScript only has to know that they may be imported.
declare module "*.css";
